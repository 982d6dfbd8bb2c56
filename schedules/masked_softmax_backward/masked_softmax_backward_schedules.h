// SPDX-License-Identifier: MIT
// Schedules of the gradient of masked softmax, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/masked_softmax_backward/masked_softmax_backward_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle of the other. No parameters.
void schedule_root(MaskedSoftmaxBackwardStages &, Halide::Func out);

struct MaskedSoftmaxBackwardParameters {
    int task_rows;  // rows of a task
    int block;      // keys that are computed together (the stages' block), a multiple of the vector width
};
// One task is some rows, one after the other; the sum of a row is complete before its first element is written, so that the
// output may be the memory of an input. Lanes are keys.
void schedule_rows(MaskedSoftmaxBackwardStages &, Halide::Func out, const MaskedSoftmaxBackwardParameters &,
                   const Halide::Target &);

}  // namespace attune
