// SPDX-License-Identifier: MIT
// Schedules of the merge of attentions, one free function each. No equation, no Func of their own except wrappers.
//
// An output may be an input: each vector of a row is written after it has been read of every part, and the lse of the parts are
// read from a copy (a test holds the schedules to that).
#pragma once
#include "generators/merge/merge_stages.h"

namespace attune {

// Outputs, and the conditions under which code is specialised: no parts come before the first; besides, there are two.
struct MergeOutputs {
    Halide::Func out, sum, lse;
    Halide::Expr begins, is_pair;
};

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(MergeStages &, MergeOutputs);

struct MergeParameters {
    int task_rows;  // rows of a task
};
// One task is some rows. Lanes are rows for values that each row has once, and channels in the sum.
void schedule_rows(MergeStages &, MergeOutputs, const MergeParameters &, const Halide::Target &);

}  // namespace attune
