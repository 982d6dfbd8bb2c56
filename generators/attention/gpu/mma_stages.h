// SPDX-License-Identifier: MIT
// Attention by MMA (mma_fragments.h). The form differs from SimtStages because the instruction fixes the elements that a lane
// holds; weights never leave the registers of a lane. Scores, masks, lengths and bands are those of blocked_stages.h: a tile's
// rows are slots, a slot being a row as one lane holds it.
#pragma once
#include "generators/attention/forward/builder.h"
#include "generators/attention/gpu/mma_fragments.h"

namespace attune {

// Layout of a lane's state of the online softmax: the lane's rows and channels.
struct OnlineState {
    const MmaShape &shape;
    // Accumulator register e of the product of 16 rows and a group of 8 channels; and that of a row of the lane.
    int weighted(int product, int group, int e) const { return (product * (shape.channels / 8) + group) * 4 + e; }
    int weighted(int row, int channel) const { return weighted(row / 2, channel / 2, row % 2 * 2 + channel % 2); }
    int sum(int row) const { return shape.lane_rows * shape.lane_channels() + row; }
    int max(int row) const { return sum(shape.lane_rows) + row; }
    int size() const { return max(shape.lane_rows); }
};

// Inputs as they lie in memory; of keys and values only the addresses.
struct RawInputs {
    RawInput query, key, value;
};

struct MmaBlockStages {
    KvBlockStages p;                      // (r, k, c, t, h, b): qk, score with its steps; k counts the keys of a lane
    Halide::Func rows;                    // (w, key, side, c, t, h, b): pairs of channels of the keys (side 0) and values (1)
    Halide::Func key_words, value_words;  // (e, l, n, m, c, t, h, b)
    MmaProduct product;                   // (e, l, p, n, c, t, h, b): scores as the instruction leaves them
    Halide::Func lane_max, row_max;       // (r, c, t, h, b): maximum of the lane's keys, of all keys
    Halide::RVar max_key, online_keys, online_block;
};

struct MmaStages {
    MmaVars v;
    SdpaStages s;  // row_begin, row_end, out; t counts tiles
    ResidentWords queries;
    MmaBlockStages full, partial;
    Halide::Func online_softmax;       // (l, t, h, b) Tuple: OnlineState
    Halide::Func sum, max, lse;        // (r, t, h, b): of all keys
    RecomputedTotals recomputed;       // weighted values
    KvBlockStages of_key;              // of recomputed rows: c counts keys
    Halide::RVar element, slot, tile;  // of out, or of state
    // Split form only: a tile t belongs to a split of the keys; `state` is an update over rows and splits (online_softmax.h),
    // and out is the merge of `state`.
    Halide::Func state;
    SdpaStages merged;  // total_max to total_pv
};

// Inputs as in simt_stages(); t of shortest and longest counts tiles.
MmaStages mma_stages(const SdpaInputs &, const RawInputs &, const MmaShape &, const Score &, const MmaInstructions &,
                     const std::function<Halide::Expr(Halide::Expr)> &stored);
// The form whose rows are the queries of all query heads that share a key head; keys are cut in splits of `split_keys`, a
// multiple of kv_block.
MmaStages mma_split_stages(const SdpaInputs &, const RawInputs &, const MmaShape &, int split_keys, const Score &,
                           const MmaInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
