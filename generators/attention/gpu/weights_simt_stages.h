// SPDX-License-Identifier: MIT
// Weights and scores as an output, on a GPU: a lane computes a pair from the log-sum-exp of the forward, or the mean of a pair
// over the heads. Where scores are large the rounding of a log-sum-exp is an error of all weights of a query, so that they are
// divided by their sum, which a lane of a kernel before adds.
#pragma once
#include "generators/attention/gpu/lane_pairs.h"

namespace attune {

struct WeightsSimtInputs {
    SdpaInputs rows;
    Halide::Func lse;    // (i, h, b)
    Halide::Expr mode;   // WeightsMode of runtime/include/attune/sdpa.h
    Halide::Expr heads;  // of which an output is the mean: 1, or all
    std::function<Halide::Expr(Halide::Expr)> exp2;
};
struct WeightsSimtStages {
    Halide::Func qk_of_total, weight_of_total;  // (j, i, h, b)
    Halide::Func total;                         // (i, h, b): of the weights of a query, with its sink
    Halide::Func qk, of_head, sum, out;         // (j, i, h, b)
    Halide::RVar key, head;
    Halide::Var j{"j"}, i{"i"}, h{"h"}, b{"b"};
};
WeightsSimtStages weights_simt_stages(const WeightsSimtInputs &, const Score &,
                                      const std::function<Halide::Expr(Halide::Expr)> &narrowed);

}  // namespace attune
