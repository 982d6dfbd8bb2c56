// SPDX-License-Identifier: MIT
// Linear layers by AMX tiles of bf16. An instruction sums a fixed depth, so operands are padded with zeros, for any depth.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// The form with rows of x as the left factor and pairs of weights as the right one. Blocks are of pairs. With pair_of_panel,
// partial is (n, m, p, c, h, b), and n is a column of panel p.
struct AmxStages : LinearSums {
    std::optional<BlockTranspose> transpose;  // with blocks
    Halide::Func panel;                       // (e, n, k, h, b): pairs of the weight; not defined with pair_of_panel
    Halide::Func x_rows;                      // (k, m, h, b): x, padded
    Halide::RVar partial_tile;                // partial_k is within a tile
};
AmxStages linear_amx_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

// The bits of AmxStages, with weights as the left factor, read as they lie or copied, and x in pairs: for so few rows that
// packing the weights does not pay. Blocks are of pairs of x, and required. partial is (m, n, c, h, b).
struct AmxWeightStages : LinearSums {
    BlockTranspose transpose;
    Halide::Func x_pairs;       // (e, m, k, h, b)
    Halide::Func panel;         // (k, n, t, h, b): weights along k in AMX tile t of the depth; unused where read as they lie
    Halide::RVar partial_tile;  // partial_k is within a tile
};
AmxWeightStages linear_amx_weight_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

}  // namespace attune
