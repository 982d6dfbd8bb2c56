// SPDX-License-Identifier: MIT
// How the gradient of masked softmax is computed: one free function per schedule. No equation, no Func of its own but wrappers.
#pragma once
#include "generators/masked_softmax_backward/masked_softmax_backward_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle of the other. Has no parameters.
void schedule_root(MaskedSoftmaxBackwardStages &, Halide::Func out);

struct MaskedSoftmaxBackwardParameters {
    int task_rows;  // rows of a task
    int block;      // keys that are computed together (the stages' block), a multiple of the vector width
};
// One task is some rows, one after the other; the sum of a row is there before its first element is written, so that the output
// may be the memory of an input. Lanes are keys.
void schedule_rows(MaskedSoftmaxBackwardStages &, Halide::Func out, const MaskedSoftmaxBackwardParameters &,
                   const Halide::Target &);

}  // namespace attune
