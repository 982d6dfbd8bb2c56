// SPDX-License-Identifier: MIT
// Shuffles that read whole vectors.
//
// Halide 21 makes a shuffle of two vectors in stack memory a shuffle of one load from the first to the last element used, dense
// or strided (StageStridedLoads, halide/Halide#7230). LLVM keeps an array in registers only if reads match the writes, so the
// passes of a BlockTranspose (generators/math/transpose.h) go through memory. Halide 22 has another form of transposes (#8925,
// #9113).
//
//     shuffle(t[ramp(0, 1, 30)], 0, 16, 1, 17, 4...)  ->  shuffle(t[ramp(0, 1, 16)], t[ramp(16, 1, 16)], 0, 16, 1, 17, 4...)
//
// Rows that are stored by halves are loaded by halves. Refused: nothing; the pass applies to every shuffle of one load at a
// constant place of an array whose size is a multiple of the vector.
#pragma once
#include "Halide.h"

namespace attune {

void shuffle_whole_vectors(Halide::Pipeline);

}  // namespace attune
