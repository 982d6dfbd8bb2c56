// Loops of which a condition takes some iterations.
#pragma once
#include "Halide.h"

namespace attune {

// A loop over chunks whose condition says which it takes (generators/attention/gpu/online_softmax.h) comes to all of them: Halide trims
// no loop over barriers, and none by a lower end that is kept from its solver. This lowering pass has such a loop count
// those that are taken: from the largest of the lower ends to the smallest of the upper ends, but for one gap. It looks at
// conditions that hold for all that an iteration does.
void count_taken_iterations(Halide::Pipeline);

}  // namespace attune
