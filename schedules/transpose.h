// How a BlockTranspose is computed: in registers.
#pragma once
#include "generators/math/transpose.h"

namespace attune {

// Rows come in as vectors, and every pass is unrolled, so that its storage is promoted to registers.
void schedule_transpose(BlockTranspose, const Halide::LoopLevel &block);

}  // namespace attune
