// SPDX-License-Identifier: MIT
// Gradients of a bias and of ALiBi's slopes, on a GPU, without atomics. A lane owns an element of the bias, and adds the pairs
// that share it, one after the other; of the slopes, a lane adds the pairs of a query, and a second pass adds the queries. Sums
// are in double.
#pragma once
#include "generators/attention/gpu/lane_pairs.h"
#include <array>

namespace attune {

struct TableGradientInputs {
    const GradientInputs &rows;
    std::function<Halide::Expr(Halide::Expr)> exp2;
    Halide::Expr batch;
    Halide::Expr wants_bias, wants_slopes;
    std::array<Halide::Expr, 4> bias_extents;  // of (j, i, h, b): 1 where the bias broadcasts
    Halide::Expr slope_batch;                  // 1 where all batch entries share the slopes
};

struct TableGradientStages {
    // A pair's products, and its summand, which is 0 where it is masked.
    struct OfPair {
        Halide::Func qk, weight_gradient, summand;
    };
    OfPair for_bias, for_slopes;
    Halide::Func bias_sum, bias;       // (j, i, h, b)
    std::vector<Halide::RVar> shared;  // the pairs of an element of the bias: j, i, h, b
    Halide::Func slope_rows;           // (i, h, b): of a query
    Halide::RVar key;
    Halide::Func partial_sum, sum, slopes;  // (g, h, b), (h, b): of the queries
    Halide::RVar entry, query, group;
    Halide::Var j{"j"}, i{"i"}, h{"h"}, b{"b"}, g{"g"};
};

// The queries of a head are summed by this many lanes.
constexpr int lanes_of_slope = 32;

TableGradientStages table_gradient_stages(const TableGradientInputs &, const Score &,
                                          const std::function<Halide::Expr(Halide::Expr)> &narrowed);

}  // namespace attune
