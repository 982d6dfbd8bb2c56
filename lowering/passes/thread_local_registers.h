// SPDX-License-Identifier: MIT
// Arrays in registers that outlive a barrier.
//
// Halide 21 makes an array in MemoryType::Register that is allocated outside the loops over threads as large as all threads of
// a block need it, and indexes it by the thread: local memory in place of registers. Yet each thread has an array of its own.
// Halide 22 does this itself (halide/Halide#9325, #9343).
//
//     sum[.thread_id_x + 96] = ...  ->  sum[96] = ...
//
// Vectors are loaded and stored element by element. Refused: indices whose part that depends on the thread differs between two
// uses of an array, predicated vectors, and a kernel without such an array.
#pragma once
#include "Halide.h"

namespace attune {

void use_thread_local_registers(Halide::Pipeline);

}  // namespace attune
