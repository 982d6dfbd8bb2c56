// SPDX-License-Identifier: MIT
// Stack arrays with slots of their own.
//
// Halide 21 lets a stage reuse the stack memory of a finished one (halide/Halide#366): if two arrays of one type share a slot
// and one has computed places, LLVM keeps neither in registers. This pass gives an array that is read and written at constant
// places alone a type that no other array has, vectors of four, and so a slot of its own.
//
//     allocate sum[float32 * 64] in Stack  ->  allocate sum[float32x4 * 16] in Stack
//
// For CPUs with 32 vector registers: where there are 16, a register tile takes all. Refused: nothing; an array with a computed
// place stays as it is.
#pragma once
#include "Halide.h"

namespace attune {

void pin_stack_slots(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
