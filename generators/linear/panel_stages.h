// SPDX-License-Identifier: MIT
// Linear layers by register tiles of several rows, whose weights are packed in panels or lie so already.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

struct PanelStages : LinearSums {
    std::optional<BlockTranspose> transpose;  // with blocks
    Halide::Func panel;                       // (n, k, h, b): the weights as the sums read them; unused where they lie so
    Halide::Func x_rows;                      // (k, m, h, b): x widened, where it needs widening
};
PanelStages linear_panel_stages(const LinearInputs &, const LinearShape &);

// The bits of PanelStages for few rows whose weights lie along n: a rank-k update adds update_depth rows of the weight to the
// partial sums of all columns before the next update begins.
struct RankKStages : LinearSums {
    Halide::Func x_rows;               // (k, m, h, b): x widened, where it needs widening
    Halide::RVar term, rank_k_update;  // of update 0 of partial, rank-k updates; update 1 has the remaining terms
};
RankKStages linear_rank_k_stages(const LinearInputs &, const LinearShape &);

// bf16 widened to f32, in the summation order of Bf16DotPanelStages: for processors without bf16 dot products.
struct WidenedPanelStages : PairSums {
    std::optional<BlockTranspose> transpose;  // with blocks
    Halide::Func panel;                       // (n, k, h, b)
    Halide::Func x_rows;                      // (k, m, h, b): x widened
};
WidenedPanelStages linear_widened_panel_stages(const LinearInputs &, const LinearShape &);

// Sums of bf16 dot products. Blocks are of pairs.
struct Bf16DotPanelStages : PairSums {
    std::optional<BlockTranspose> transpose;  // with blocks
    Halide::Func panel;                       // (e, n, k, u, h, b): pair u of group k; unused where weights lie so
};
Bf16DotPanelStages linear_bf16_dot_panel_stages(const LinearInputs &, const LinearShape &);

// Bf16DotPanelStages with several accumulators, for even depths: the last partial is added in the epilogue, where out is made,
// so that a register tile may leave after it. product has no update for an odd depth.
struct Bf16DotEpilogueStages : Bf16DotPanelStages {};
Bf16DotEpilogueStages linear_bf16_dot_epilogue_stages(const LinearInputs &, const LinearShape &);

}  // namespace attune
