// SPDX-License-Identifier: MIT
// GPU schedules of attention in the form of mma_stages.h and of its gradients in the form of mma_gradient_stages.h. No
// equation, no Func of their own.
#pragma once
#include "generators/attention/gpu/mma_gradient_stages.h"
#include "generators/attention/gpu/mma_stages.h"

namespace attune {

// A block is one tile of queries of one head. Its warps stage the keys and values of a KV block in shared memory together, and
// hold everything else in registers.
void schedule_mma(MmaStages &, Halide::Func out, const MmaShape &);
// A block is one tile of rows and one split of the keys; another kernel merges the splits.
void schedule_split_mma(MmaStages &, Halide::Func out, Halide::Func state, const MmaShape &, int split_keys);
// Rows are those of the gradient; each gradient is a kernel of its own.
void schedule_mma_gradient(MmaGradient &, const MmaShape &);

// Extents of a Func that are computed together: slots (0: a lane's) or lanes, a lane's rows of a KV block, products of
// matrices, groups of columns, groups of terms.
struct MmaExtents {
    int slots = 0, lanes = 1, keys = 1, steps = 1, groups = 1, terms = 1;
};
struct MmaBlock {
    const MmaVars &v;
    const MmaShape &shape;

    // The update of a result over the final state of its lanes: a block is one tile, a lane writes its rows. Returns the loop
    // over lanes.
    Halide::LoopLevel distribute_to_lanes(Halide::Func out, const Halide::RVar &element, const Halide::RVar &slot,
                                          const Halide::RVar &tile) const;
    // Constant extents: otherwise a lane's values would not be in registers.
    Halide::Func bounded(Halide::Func, const MmaExtents &) const;
    // Within the loop of a lane; all loops unrolled, fragments as vectors.
    Halide::Func in_lane(Halide::Func, const Halide::LoopLevel &, const MmaExtents & = {}) const;
    // Values of a lane, computed before a loop of the block, or in it.
    void of_lanes(Halide::Func, const Halide::LoopLevel &block, const MmaExtents & = {}) const;
    // A sum of products of matrices: one term after the other, for all groups of columns.
    void products(const MmaProduct &, const Halide::LoopLevel &, int groups) const;
    // Words of `rows` rows in shared memory, written by all lanes of the block.
    void staging(Halide::Func words, int rows, const Halide::LoopLevel &) const;
    // Operands of resident rows, for products within the loops of a block.
    void resident(ResidentWords &, const Halide::LoopLevel &block, const std::vector<MmaProduct> &) const;
    // An update of the lanes' state by KV blocks: loops of a lane within the loops of the block, innermost first. Returns the
    // loop over lanes.
    Halide::LoopLevel accumulate(Halide::Func accumulator, int update, const std::vector<Halide::VarOrRVar> &of_lane,
                                 const std::vector<Halide::VarOrRVar> &of_block) const;
    // Recomputation of rows: rare, so its code is short. of_row: the stages of one row.
    void recomputing(const RecomputedTotals &, const Halide::LoopLevel &lane, const std::vector<Halide::Func> &of_row) const;
};
void require_mma(const MmaShape &);

// Instructions of tensor cores. `type`: float32, float16, or uint16 that holds bf16.
MmaInstructions mma_instructions(const Halide::Target &, const Halide::Type &type);

}  // namespace attune
