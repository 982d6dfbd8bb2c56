// SPDX-License-Identifier: MIT
// What is computed: a gradient of attention where lanes work side by side, as in simt_stages.h. A lane holds rows of queries or
// keys and goes over the streamed rows (gradient_pairs.h); no lane waits for another.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/gpu/simt_stages.h"

namespace attune {

// What a row is multiplied with, k-th of a streamed block c: pairs that all rows of a group of lanes see whole, and the others.
struct SimtPairs {
    Halide::Func streamed, streamed_other;  // (j, k, c, t, g, h, b) a lane's channels of key and value, or query and grad_out
    Halide::Func qk_share,
        weight_gradient_share;  // (r, k, c, t, g, h, b) a lane's share of the score, and of the weight's gradient
    PairWeights of_pair;        // (r, k, c, t, g, h, b), updated by rows
    Halide::RVar channel, other_channel;
    Halide::RVar sum_key, sum_block, sum_head;
    bool has_heads = false;  // sum_head is there: of rows of keys
};

struct SimtGradient {
    Halide::Func resident, resident_other;  // (j, r, t, h, b) a lane's channels of its rows
    SimtPairs full, partial;
    Halide::Func accumulator;  // (j, r, t, h, b)
    Halide::Func out;          // (d, row, h, b), an update over these as that of SimtStages
    Halide::RVar element, share, row, row_lane;
    Halide::Var j{"j"}, r{"r"}, k{"k"}, c{"c"}, t{"t"}, d{"d"}, g{"g"}, h{"h"}, b{"b"};
};

// `kv_block`: streamed rows that are taken together, or not. The last tile of tile_rows is filled up by lanes that store
// nothing.
SimtGradient simt_gradient(GradientOf, const GradientInputs &, const SimtShape &, int kv_block, int tile_rows, const Score &,
                           const SimtInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
