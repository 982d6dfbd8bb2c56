// SPDX-License-Identifier: MIT
// What is computed where the lanes of a warp multiply matrices together (mma_fragments.h). Another form than SimtStages
// because the instruction says which elements a lane holds; weights never leave the registers of a lane. Scores, masks,
// lengths and bands are those of blocked_stages.h: rows of a tile are slots, a row as one lane holds it.
#pragma once
#include "generators/attention/forward/builder.h"
#include "generators/attention/gpu/mma_fragments.h"

namespace attune {

// Where in a lane's state of the online softmax what lies: rows and channels of the lane.
struct OnlineState {
    const MmaShape &shape;
    // Register e of the product of matrices of 16 rows and a group of 8 channels; and of a row of the lane.
    int weighted(int product, int group, int e) const { return (product * (shape.channels / 8) + group) * 4 + e; }
    int weighted(int row, int channel) const { return weighted(row / 2, channel / 2, row % 2 * 2 + channel % 2); }
    int sum(int row) const { return shape.lane_rows * shape.lane_channels() + row; }
    int max(int row) const { return sum(shape.lane_rows) + row; }
    int size() const { return max(shape.lane_rows); }
};

// The inputs as they are in memory; of keys and values nothing but where.
struct RawInputs {
    RawInput query, key, value;
};

struct MmaBlockStages {
    KvBlockStages p;                      // (r, k, c, t, h, b) qk, score with its steps; k counts the keys of a lane
    Halide::Func rows;                    // (w, key, side, c, t, h, b) pairs of channels of the keys (side 0) and values (1)
    Halide::Func key_words, value_words;  // (e, l, n, m, c, t, h, b)
    MmaProduct product;                   // (e, l, p, n, c, t, h, b) scores as the instruction leaves them
    Halide::Func lane_max, row_max;       // (r, c, t, h, b) of the lane's keys, of all
    Halide::RVar max_key, online_keys, online_block;
};

struct MmaStages {
    MmaVars v;
    SdpaStages s;  // row_begin, row_end, out; t counts tiles
    ResidentWords queries;
    MmaBlockStages full, partial;
    Halide::Func online_softmax;       // (l, t, h, b) Tuple: OnlineState
    Halide::Func sum, max, lse;        // (r, t, h, b) of all keys
    RecomputedTotals recomputed;       // weighted values
    KvBlockStages of_key;              // of those that are computed once more: c counts keys
    Halide::RVar element, slot, tile;  // of out, or of state
    // Of split form only: a tile t is one of a split of the keys, and `state` the update of rows and splits (online_softmax.h)
    // of which out is the merge.
    Halide::Func state;
    SdpaStages merged;  // total_max to total_pv
};

// Inputs as those of simt_stages(); t of shortest and longest counts tiles.
MmaStages mma_stages(const SdpaInputs &, const RawInputs &, const MmaShape &, const Score &, const MmaInstructions &,
                     const std::function<Halide::Expr(Halide::Expr)> &stored);
// Rows are the queries of all query heads that share a key head, and keys are cut in splits of `split_keys`, a multiple of
// kv_block.
MmaStages mma_split_stages(const SdpaInputs &, const RawInputs &, const MmaShape &, int split_keys, const Score &,
                           const MmaInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
