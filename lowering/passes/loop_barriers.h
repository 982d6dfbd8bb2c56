// SPDX-License-Identifier: MIT
// Barriers at the end of the iterations of a loop in a GPU block.
//
// Halide 21 lets the lanes of a block wait between the stages of a Func. In a serial loop of one stage, whose iterations read
// what the iteration before has stored in shared memory, it lets them wait only where a barrier stands in the loop already
// (InjectThreadBarriers). Lanes of one warp meet the hazard as well: from compute capability 7.0 on they need not keep step.
//
//     for (pass, 0, passes) { shared[...] = f(shared[...]) }
//     ->  for (pass, 0, passes) { shared[...] = f(shared[...]); gpu_thread_barrier(shared memory) }
//
// The schedule names the loops, of which each lane of a block must run as many iterations. A kernel without such a loop is
// refused.
#pragma once
#include "lowering/lowered_loop.h"
#include <vector>

namespace attune {

void add_loop_barriers(Halide::Pipeline, const std::vector<LoweredLoop> &);

}  // namespace attune
