// SPDX-License-Identifier: MIT
// How attention in the form of mma_stages.h, and its gradients in that of mma_gradient_stages.h, are computed: on a
// GPU. No equation, no Func of its own.
#pragma once
#include "generators/attention/gpu/mma_gradient_stages.h"
#include "generators/attention/gpu/mma_stages.h"

namespace attune {

// A block is one tile of queries of one head. Its warps stage the keys and values of a KV block in shared memory, together, and
// hold all else in registers.
void schedule_mma(MmaStages &, Halide::Func out, const MmaShape &);
// A block is one tile of rows and one split of the keys; another kernel merges splits.
void schedule_split_mma(MmaStages &, Halide::Func out, Halide::Func state, const MmaShape &, int split_keys);
// Rows are of the gradient, and each of them is a kernel of its own.
void schedule_mma_gradient(MmaGradient &, const MmaShape &);

// Parts of them. How much of a Func is computed together: slots (0: those of a lane) or lanes, rows of a KV block that a lane
// has, and of how many products of matrices, groups of columns, groups of terms.
struct MmaExtents {
    int slots = 0, lanes = 1, keys = 1, steps = 1, groups = 1, terms = 1;
};
struct MmaBlock {
    const MmaVars &v;
    const MmaShape &shape;

    // The update of a result over what its lanes hold: a block is one tile, a lane writes its rows. Returns the loop over
    // lanes.
    Halide::LoopLevel distribute_to_lanes(Halide::Func out, const Halide::RVar &element, const Halide::RVar &slot,
                                          const Halide::RVar &tile) const;
    // Constant extents, or what a lane holds would be no registers.
    Halide::Func bounded(Halide::Func, const MmaExtents &) const;
    // Within the loop of a lane; all loops unrolled, fragments as vectors.
    Halide::Func in_lane(Halide::Func, const Halide::LoopLevel &, const MmaExtents & = {}) const;
    // What a lane has before a loop of the block, or in it.
    void of_lanes(Halide::Func, const Halide::LoopLevel &block, const MmaExtents & = {}) const;
    // A sum of products of matrices: one term after the other, for all groups of columns.
    void products(const MmaProduct &, const Halide::LoopLevel &, int groups) const;
    // Words of so many rows in shared memory, by all lanes of the block.
    void staging(Halide::Func words, int rows, const Halide::LoopLevel &) const;
    // Operands of resident rows, for products within the loops of a block.
    void resident(ResidentWords &, const Halide::LoopLevel &block, const std::vector<MmaProduct> &) const;
    // An update of what lanes hold by KV blocks: loops of a lane within those of the block, innermost first. Returns
    // the loop over lanes.
    Halide::LoopLevel accumulate(Halide::Func accumulator, int update, const std::vector<Halide::VarOrRVar> &of_lane,
                                 const std::vector<Halide::VarOrRVar> &of_block) const;
    // Rarely computed, so it is short. of_row: what is computed of one row.
    void recomputing(const RecomputedTotals &, const Halide::LoopLevel &lane, const std::vector<Halide::Func> &of_row) const;
};
void require_mma(const MmaShape &);

// Of tensor cores. `type`: float32, float16, or uint16 that holds bf16.
MmaInstructions mma_instructions(const Halide::Target &, const Halide::Type &type);

}  // namespace attune
