// Arrays of registers that outlive a barrier.
#pragma once
#include "Halide.h"

namespace attune {

// Halide 21 makes an array in MemoryType::Register that is allocated outside of the loops over threads as large as all
// threads of the block need it, and indexes it by the thread: no registers, but memory. Yet each thread has an array of its
// own. This lowering pass takes what depends on the thread out of its indices, which must be the same for all of them; so a
// thread's part begins at 0, and indices are constants.
void keep_registers_private(Halide::Pipeline);

}  // namespace attune
