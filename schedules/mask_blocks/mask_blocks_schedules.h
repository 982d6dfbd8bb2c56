// SPDX-License-Identifier: MIT
// Schedule of a block mask.
#pragma once
#include "generators/mask_blocks/mask_blocks_stages.h"

namespace attune {

// One task is the blocks of one tile of queries. Lanes are keys.
void schedule_mask_blocks(MaskBlocksStages &, Halide::Func out, int group, const Halide::Target &);

}  // namespace attune
