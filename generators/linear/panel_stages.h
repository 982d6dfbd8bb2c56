// SPDX-License-Identifier: MIT
// Linear layers whose weights are packed in panels for register tiles of several rows, or lie so already.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

struct PanelStages : LinearSums {
    std::optional<BlockTranspose> transpose;  // where there are blocks
    Halide::Func panel;                       // (n, k, h, b) the weights as the sums read them; not where they lie so
    Halide::Func x_rows;                      // (k, m, h, b) x widened, where it is to be
};
PanelStages linear_panel_stages(const LinearInputs &, const LinearShape &);

// The bits of PanelStages for few rows whose weights lie along n: a rank-k update adds update_depth rows of them to
// the partial sums of all columns before the next one does.
struct RankKStages : LinearSums {
    Halide::Func x_rows;               // (k, m, h, b) x widened, where it is to be
    Halide::RVar term, rank_k_update;  // of update 0 of partial, rank-k updates; update 1 has the terms that are left
};
RankKStages linear_rank_k_stages(const LinearInputs &, const LinearShape &);

// bf16 widened to f32, in the order of summation of Bf16DotPanelStages: for processors without that instruction.
struct WidenedPanelStages : PairSums {
    std::optional<BlockTranspose> transpose;  // where there are blocks
    Halide::Func panel;                       // (n, k, h, b)
    Halide::Func x_rows;                      // (k, m, h, b) x widened
};
WidenedPanelStages linear_widened_panel_stages(const LinearInputs &, const LinearShape &);

// Sums of bf16 dot products. Blocks are of pairs.
struct Bf16DotPanelStages : PairSums {
    std::optional<BlockTranspose> transpose;  // where there are blocks
    Halide::Func panel;                       // (e, n, k, u, h, b) pair u of group k; not where weights lie so
};
Bf16DotPanelStages linear_bf16_dot_panel_stages(const LinearInputs &, const LinearShape &);

// The same of several accumulators for depths that are even: the last partial is added in the epilogue, where out is made, so
// that a register tile may leave after it. product has no update for an odd depth.
struct Bf16DotEpilogueStages : Bf16DotPanelStages {};
Bf16DotEpilogueStages linear_bf16_dot_epilogue_stages(const LinearInputs &, const LinearShape &);

}  // namespace attune
