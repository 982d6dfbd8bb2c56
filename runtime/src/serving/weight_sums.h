// SPDX-License-Identifier: MIT
// Sums of weights by key: the output PagedOptions::weight_sums.
#pragma once
#include "serving/paged_call.h"

namespace attune {

// Checks the output weight_sums of a call that gives it, after all other arguments. `others`: tensors that it must not overlap.
Status check_weight_sums(const PagedOptions &, std::span<const NamedView> others, const PagedCall &);

// The kernels of the weights and of their sums.
struct WeightSumKernels {
    Choice weights, sums;
};
Status choose_weight_sums(const Context::State &, const PagedOptions &, const PagedCall &, WeightSumKernels &);

// Adds the weights of one sequence's call, its tables included, to its sums (Hq or Hkv, keys). Scores, weights and sums are f64
// for f64, else f32. Weights of some queries at a time are in scratch.
Status add_weight_sums(Context::State &, const SdpaCall &, const WeightSumKernels &, const View &sums);

}  // namespace attune
