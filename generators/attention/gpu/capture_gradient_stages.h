// SPDX-License-Identifier: MIT
// Gradient of a captured buffer that a user's score or factor reads, on a GPU, without atomics. A lane visits the pairs of some
// queries one after the other and adds to a copy of the gradient that is the lane's own; a second pass sums the copies in
// order. The form differs from gradient_pairs.h because elements are read by any pairs: no lane owns an element.
#pragma once
#include "generators/attention/equations/user_attention.h"
#include "generators/attention/gpu/lane_pairs.h"
#include <array>

namespace attune {

struct CaptureGradientInputs {
    const GradientInputs &rows;
    std::function<Halide::Expr(Halide::Expr)> exp2;
    std::vector<CapturedBuffer> buffers;  // of the attention; the gradient is of number `which`
    Halide::Expr which, batch;
    Halide::Expr copies, elements;        // of the gradient
    std::array<Halide::Expr, 3> extents;  // of its three innermost dimensions, innermost first
};

struct CaptureGradientStages {
    Halide::Func qk, weight_gradient;  // (n, j, c): products of pairs; n counts the queries of a lane
    Halide::Func term;                 // (n, j, c) Tuple: the summand of each read
    Halide::Func sums;                 // (c, e): the copies, in double
    Halide::Func partial_sum, sum;     // (g, x, y, z, w), (x, y, z, w): of the copies
    Halide::Func out;                  // (x, y, z, w), innermost first
    Halide::RVar read, key, query, copy, group;
    bool has_reads = false;  // otherwise the sums are 0
    Halide::Var n{"n"}, j{"j"}, c{"c"}, e{"e"}, g{"g"}, x{"x"}, y{"y"}, z{"z"}, w{"w"};
};

// The copies are summed by this many lanes.
constexpr int lanes_of_sum = 32;

// The gradient is summed over pairs below the lengths, within the bands and kept by every step of the score.
CaptureGradientStages capture_gradient_stages(const CaptureGradientInputs &, const Score &);

}  // namespace attune
