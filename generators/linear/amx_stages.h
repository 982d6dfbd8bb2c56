// SPDX-License-Identifier: MIT
// Linear layers by products of whole AMX tiles of bf16, which take so much of the depth at a time. Operands are padded
// by zeros, so that depths may be any.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Rows of x are the left factor, weights in pairs the right one. Blocks are of pairs.
struct AmxStages : LinearSums {
    std::optional<BlockTranspose> transpose;  // where there are blocks
    Halide::Func panel;                       // (e, n, k, h, b) pairs of the weight
    Halide::Func x_rows;                      // (k, m, h, b) x, padded
    Halide::RVar partial_tile;                // partial_k is within a tile
};
AmxStages linear_amx_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

// The same sums, bit for bit, with weights as the left factor, read as they lie or copied, and x in pairs: for so few rows that
// weights are not worth packing. Blocks are of pairs of x, and there must be some. partial is (m, n, c, h, b).
struct AmxWeightStages : LinearSums {
    BlockTranspose transpose;
    Halide::Func x_pairs;  // (e, m, k, h, b)
    Halide::Func panel;    // (k, n, t, h, b) weights along k in AMX tile t of the depth; not where they are read as they lie
    Halide::RVar partial_tile;  // partial_k is within a tile
};
AmxWeightStages linear_amx_weight_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

}  // namespace attune
