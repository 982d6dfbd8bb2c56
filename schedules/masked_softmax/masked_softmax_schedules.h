// SPDX-License-Identifier: MIT
// Schedules of masked softmax, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/masked_softmax/masked_softmax_stages.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(MaskedSoftmaxStages &, Halide::Func out);

struct MaskedSoftmaxParameters {
    int task_rows;  // rows of a task
    int block;      // keys that are computed together (the stages' block), a multiple of the vector width
    // Distance, in rows, of the prefetch of a later row; 0: no prefetch.
    int prefetch_rows;
    // Prefetch the row of out while weights are computed, so that its stores find their lines in the cache. The later row then
    // goes into all caches, else into L1 alone.
    bool prefetch_out;
};
// One task is some rows, one after the other; a row stays in L1 or L2 between its passes. Lanes are keys.
void schedule_rows(MaskedSoftmaxStages &, Halide::Func out, Passes &, const Halide::ImageParam &scores,
                   const MaskedSoftmaxParameters &, const Halide::Target &);

}  // namespace attune
