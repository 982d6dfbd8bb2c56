// SPDX-License-Identifier: MIT
// Schedules of a BlockTranspose, in registers.
#pragma once
#include "generators/math/transpose.h"

namespace attune {

// Rows are read as vectors, and every pass is unrolled, so that its storage is promoted to registers.
void schedule_transpose(BlockTranspose, const Halide::LoopLevel &block);

// Schedules a stage of the Func `of` that reads tables in transposed blocks, block by block. Its columns are split already.
void schedule_blocks(Halide::Stage consumer, Halide::Func of, Halide::VarOrRVar row, Halide::VarOrRVar column,
                     Halide::VarOrRVar column_block, const std::vector<BlockTranspose> &tables);

}  // namespace attune
