// What is computed: a gradient of attention where lanes work side by side, as in lane_stages.h. Each of those by query, key and
// value is a walk of its own: a lane holds rows of queries or keys and walks the rows of the other side, whose scores and
// weights it computes again from the log-sum-exp of the forward. So nothing but the gradient is written, no lane waits for
// another, and the order of a sum is that of the rows that are walked.
#pragma once
#include "generators/sdpa/lane_stages.h"

namespace attune {

enum class GradientOf { query, key, value };

struct LaneGradientInputs {
    SdpaInputs forward;               // as those of lane_stages(); sinks are in row_lse
    Halide::Func grad_out;            // (d, i, h, b), f32
    Halide::Func row_lse, row_delta;  // (i, h, b): backward_rows_stages.h
};

// What a row meets, k-th of a chunk c: pairs that all rows of a group of lanes see whole, and the others. h is the row's head,
// and g for a row of keys the query head among those that share it; else 0.
struct LanePairs {
    Halide::Func met, met_other;             // (j, k, c, t, g, h, b) a lane's channels of key and value, or query and grad_out
    Halide::Func part_score, part_gradient;  // (r, k, c, t, g, h, b) a lane's share of the score, and of the weight's gradient
    Halide::Func logit;                      // (r, k, c, t, g, h, b), where the score is bent Tuple {its slope, logit}
    std::vector<Halide::RVar> step_rows;     // of each step, an update of logit
    Halide::Func weight;  // (r, k, c, t, g, h, b) what the other row counts: the weight, or the gradient by the scaled product
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
LaneGradient lane_gradient(GradientOf, const LaneGradientInputs &, const LaneShape &, int chunk, int tile_rows, const Score &,
                           const LaneInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
