// SPDX-License-Identifier: MIT
// How attention in the form of mma_stages.h, and its gradients in that of mma_gradient_stages.h, are computed: on a
// GPU. No equation, no Func of its own.
#pragma once
#include "generators/attention/gpu/mma_gradient_stages.h"
#include "generators/attention/gpu/mma_stages.h"

namespace attune {

// A block is one tile of queries of one head. Its warps stage the keys and values of a chunk in shared memory, together, and
// hold all else in registers.
void schedule_fragments(FragmentStages &, Halide::Func out, const FragmentShape &);
// A block is one tile of rows and one part of the keys; another kernel merges parts.
void schedule_split_fragments(FragmentStages &, Halide::Func out, Halide::Func state, const FragmentShape &, int part);
// Rows are of the gradient, and each of them is a kernel of its own.
void schedule_fragment_gradient(FragmentGradient &, const FragmentShape &);

// Parts of them. How much of a Func is computed together: slots (0: those of a lane) or lanes, rows of a chunk that a lane has,
// and of how many products of matrices, groups of columns, groups of terms.
struct FragmentExtents {
    int slots = 0, lanes = 1, keys = 1, steps = 1, groups = 1, terms = 1;
};
struct FragmentBlock {
    const FragmentVars &v;
    const FragmentShape &shape;

    // The update of a result over what its lanes hold: a block is one tile, a lane writes its rows. Returns the loop over
    // lanes.
    Halide::LoopLevel deal_to_lanes(Halide::Func out, const Halide::RVar &element, const Halide::RVar &slot,
                                    const Halide::RVar &tile) const;
    // Constant extents, or what a lane holds would be no registers.
    Halide::Func bounded(Halide::Func, const FragmentExtents &) const;
    // Within the loop of a lane; all loops unrolled, fragments as vectors.
    Halide::Func in_lane(Halide::Func, const Halide::LoopLevel &, const FragmentExtents & = {}) const;
    // What a lane has before a loop of the block, or in it.
    void of_lanes(Halide::Func, const Halide::LoopLevel &block, const FragmentExtents & = {}) const;
    // A sum of products of matrices: one term after the other, for all groups of columns.
    void products(const FragmentProduct &, const Halide::LoopLevel &, int groups) const;
    // Words of so many rows in shared memory, by all lanes of the block.
    void staging(Halide::Func words, int rows, const Halide::LoopLevel &) const;
    // Operands of own rows, for products within the loops of a block.
    void own(OwnWords &, const Halide::LoopLevel &block, const std::vector<FragmentProduct> &) const;
    // An update of what lanes hold that takes up chunks: loops of a lane within those of the block, innermost first. Returns
    // the loop over lanes.
    Halide::LoopLevel take_up(Halide::Func running, int update, const std::vector<Halide::VarOrRVar> &of_lane,
                              const std::vector<Halide::VarOrRVar> &of_block) const;
    // Rarely computed, so it is short. of_row: what is computed of one row.
    void settling(const SettledTotals &, const Halide::LoopLevel &lane, const std::vector<Halide::Func> &of_row) const;
};
void require_fragments(const FragmentShape &);

// Of tensor cores. `type`: float32, float16, or uint16 that holds bf16.
FragmentInstructions fragment_instructions(const Halide::Target &, const Halide::Type &type);

}  // namespace attune
