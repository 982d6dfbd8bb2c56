// SPDX-License-Identifier: MIT
// How masked softmax is computed: one free function per schedule. No equation, no Func of its own but wrappers.
#pragma once
#include "generators/masked_softmax/masked_softmax_stages.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no parameters.
void schedule_root(MaskedSoftmaxStages &, Halide::Func out);

struct MaskedSoftmaxParameters {
    int task_rows;  // rows of a task
    int block;      // keys that are computed together (the stages' block), a multiple of the vector width
    // How many rows below its own a row is prefetched for, past all caches but the first; 0: none is.
    int prefetch_rows;
};
// One task is some rows, one after the other; a row stays in L1 or L2 between its passes. Lanes are keys.
void schedule_rows(MaskedSoftmaxStages &, Halide::Func out, Passes &, const Halide::ImageParam &scores,
                   const MaskedSoftmaxParameters &, const Halide::Target &);

}  // namespace attune
