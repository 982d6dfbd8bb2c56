// SPDX-License-Identifier: MIT
// Loads of AMX tiles that leave L1 as it is.
#pragma once
#include "Halide.h"

namespace attune {

// Makes every tile load of a kernel a tileloaddt1. A factor that was just written stays in L1 and meets all tiles of the other,
// which comes from L2 and would drive it out. Halide 21 has tileloadd alone, and LLVM chooses the other for nothing.
//
//     tile_load(rows, bytes, x, offset, stride)  ->  attune_tileloaddt1_bf16(rows, bytes, x, offset, stride)
//
// It refuses tiles of other types than bf16, and a kernel without tile loads.
void load_tiles_past_l1(Halide::Pipeline);

}  // namespace attune
