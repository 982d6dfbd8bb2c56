// SPDX-License-Identifier: MIT
// Stack arrays that no other array takes over.
//
// Halide 21 lets a stage reuse the stack memory of one that is done with (halide/Halide#366): of two arrays of one type in one
// slot LLVM keeps neither in registers where one of them computes its places. This pass gives an array that is read and written
// at constant places alone a type that no other has, vectors of four, and so a slot of its own.
//
//     allocate sum[float32 * 64] in Stack  ->  allocate sum[float32x4 * 16] in Stack
//
// For CPUs with 32 vector registers: of 16 a register tile takes all. It refuses nothing: an array with a computed place stays
// as it is.
#pragma once
#include "Halide.h"

namespace attune {

void pin_stack_slots(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
