// SPDX-License-Identifier: MIT
// Schedules of the merge of two attentions, one free function each. No equation, no Func of their own except wrappers.
//
// Outputs may be the inputs: a row of out is written after its shares have been computed, and lse, the second output, after all
// of out (Halide computes outputs that do not depend on each other in their order; a test holds it to that).
#pragma once
#include "generators/merge/merge_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(MergeStages &, Halide::Func out, Halide::Func lse);

struct MergeParameters {
    int task_rows;  // rows of a task
};
// One task is some rows. Lanes are rows for values that each row has once, and channels in the sum.
void schedule_rows(MergeStages &, Halide::Func out, Halide::Func lse, const MergeParameters &, const Halide::Target &);

}  // namespace attune
