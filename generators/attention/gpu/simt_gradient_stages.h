// SPDX-License-Identifier: MIT
// Gradients of attention by SIMT lanes, as in simt_stages.h. A lane holds rows of queries or keys and loops over the streamed
// rows (gradient_pairs.h); no lane waits for another.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/gpu/simt_stages.h"

namespace attune {

// Row k of a streamed block c, and its factors: pairs that all rows of a group of lanes see whole, or other pairs.
struct SimtPairs {
    Halide::Func streamed, streamed_other;  // (j, k, c, t, g, h, b): a lane's channels of key and value, or query and grad_out
    Halide::Func qk_share,
        weight_gradient_share;  // (r, k, c, t, g, h, b): a lane's share of the score, and of the weight's gradient
    PairWeights of_pair;        // (r, k, c, t, g, h, b), updated by rows
    Halide::RVar channel, other_channel;
    Halide::RVar sum_key, sum_block, sum_head;
    bool has_heads = false;  // sum_head exists: resident rows are keys
};

struct SimtGradient {
    Halide::Func resident, resident_other;  // (j, r, t, h, b): a lane's channels of its rows
    SimtPairs full, partial;
    Halide::Func accumulator;  // (j, r, t, h, b)
    Halide::Func out;          // (d, row, h, b), an update over the loops below as in SimtStages
    Halide::RVar element, share, row, row_lane;
    Halide::Var j{"j"}, r{"r"}, k{"k"}, c{"c"}, t{"t"}, d{"d"}, g{"g"}, h{"h"}, b{"b"};
};

// `kv_block`: streamed rows that are computed or left out together. The last tile of tile_rows is padded with lanes that store
// nothing.
SimtGradient simt_gradient(GradientOf, const GradientInputs &, const SimtShape &, int kv_block, int tile_rows, const Score &,
                           const SimtInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
