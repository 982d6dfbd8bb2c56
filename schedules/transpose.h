// SPDX-License-Identifier: MIT
// How a BlockTranspose is computed: in registers.
#pragma once
#include "generators/math/transpose.h"

namespace attune {

// Rows come in as vectors, and every pass is unrolled, so that its storage is promoted to registers.
void schedule_transpose(BlockTranspose, const Halide::LoopLevel &block);

// A stage of a Func that reads tables in transposed blocks: it takes them block by block. Its columns are split already.
void schedule_blocks(Halide::Stage consumer, Halide::Func of, Halide::VarOrRVar row, Halide::VarOrRVar column,
                     Halide::VarOrRVar column_block, const std::vector<BlockTranspose> &tables);

}  // namespace attune
