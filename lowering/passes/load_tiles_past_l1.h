// SPDX-License-Identifier: MIT
// Loads of AMX tiles that do not evict L1.
#pragma once
#include "Halide.h"

namespace attune {

// Makes every tile load of a kernel a tileloaddt1. A factor that was just written stays in L1 while all tiles of the other
// factor, which come from L2 and would evict it, are loaded. Halide 21 has tileloadd alone, and LLVM never chooses tileloaddt1.
//
//     tile_load(rows, bytes, x, offset, stride)  ->  attune_tileloaddt1_bf16(rows, bytes, x, offset, stride)
//
// Refused: tiles of other types than bf16, and a kernel without tile loads.
void load_tiles_past_l1(Halide::Pipeline);

}  // namespace attune
