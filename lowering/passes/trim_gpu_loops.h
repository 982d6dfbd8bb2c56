// SPDX-License-Identifier: MIT
// Loop bounds from the conditions of a loop over barriers.
//
// Halide 21 trims loops to the iterations that their conditions take (trim_no_ops, halide/Halide#1141), but no loop that holds
// a GPU barrier (#5184), and none by a lower end that its solver does not see: an online softmax hides such an end, because the
// solver would narrow the bounds of a stage by it to an extent that is not provably constant. So a loop over blocks of keys
// visits all blocks.
//
//     for (c, 0, blocks) { if (c < end) { if ((int(begin <= c) & 1) != 0) work(c) } barrier }
//     ->  for (c.taken, 0, max(min(blocks, end) - max(0, begin), 0)) { let c = max(0, begin) + c.taken; work(c); barrier }
//
// Conditions on the whole of an iteration become bounds, or one gap `c < a || b <= c`; other conditions stay. A loop without
// such conditions stays as it is; a kernel without such a loop is refused.
#pragma once
#include "Halide.h"

namespace attune {

void trim_gpu_loops(Halide::Pipeline);

}  // namespace attune
