// SPDX-License-Identifier: MIT
// What is computed: a gradient of attention where lanes work side by side, as in simt_stages.h. A lane holds rows of queries or
// keys and walks the rows of the other side (gradient_pairs.h); no lane waits for another.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/gpu/simt_stages.h"

namespace attune {

// What a row meets, k-th of a chunk c: pairs that all rows of a group of lanes see whole, and the others.
struct LanePairs {
    Halide::Func met, met_other;             // (j, k, c, t, g, h, b) a lane's channels of key and value, or query and grad_out
    Halide::Func part_score, part_gradient;  // (r, k, c, t, g, h, b) a lane's share of the score, and of the weight's gradient
    PairWeights of_pair;                     // (r, k, c, t, g, h, b), updated by rows
    Halide::RVar channel, other_channel;
    Halide::RVar running_key, running_chunk, running_head;
    bool has_heads = false;  // running_head is there: of rows of keys
};

struct LaneGradient {
    Halide::Func own, own_other;  // (j, r, t, h, b) a lane's channels of its rows
    LanePairs full, part;
    Halide::Func running;  // (j, r, t, h, b)
    Halide::Func out;      // (d, row, h, b), an update over these as that of LaneStages
    Halide::RVar element, share, row, row_lane;
    Halide::Var j{"j"}, r{"r"}, k{"k"}, c{"c"}, t{"t"}, d{"d"}, g{"g"}, h{"h"}, b{"b"};
};

// `chunk`: rows that are met together, or not. The last tile of tile_rows is filled up by lanes that store nothing.
LaneGradient lane_gradient(GradientOf, const GradientInputs &, const LaneShape &, int chunk, int tile_rows, const Score &,
                           const LaneInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
