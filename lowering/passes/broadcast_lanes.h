// SPDX-License-Identifier: MIT
// Multiply-adds by element of AArch64: broadcast operands that are lanes of one vector load.
//
// A register tile multiplies vectors by scalars of neighbouring addresses, each of which Halide 21 loads and broadcasts on its
// own. NEON's fmla takes a lane of a vector as its second factor (by element), so one load of 16 bytes serves all of them. The
// pass reads runs of neighbours as lanes of a vector. It unrolls innermost loops of multiply-adds, so that neighbours of
// several rounds meet in one body, and groups a round's steps by their vectors, which then take one register at a time.
//
//     for (k, 0, 64) { sum[ramp(0, 1, 4)] += q[ramp(k*4, 1, 4)]*x4(x[k + a]) }
// ->  for (k, 0, 4) { sum[ramp(0, 1, 4)] += q[ramp(k*64, 1, 4)]*x4(extract_element(x[ramp(k*16 + a, 1, 4)], 0)), ... }
//
// bfdot takes a pair of bf16 by element, too: such pairs (bf16_dots.h) are scalars of 32 bits here.
//
// No element is read that the loop does not read: a run is replaced only where all of its lanes are read under the
// same conditions. The order of the operations stays. Refused: nothing; other loops stay as they are.
#pragma once
#include "Halide.h"

namespace attune {

void broadcast_lanes(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
