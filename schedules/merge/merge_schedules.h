// How two attentions are merged: one free function per schedule. No equation, no Func of its own but wrappers.
//
// Every schedule computes what it reads of a row's lse before it writes out or lse of that row, so outputs may be the inputs.
#pragma once
#include "generators/merge/merge_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no numbers.
void schedule_root(MergeStages &, Halide::Func out, Halide::Func lse);

struct MergeTuning {
    int task_rows;  // rows of a task
};
// One task is some rows. Lanes are rows in what is computed once for each of them, and channels in the sum.
void schedule_rows(MergeStages &, Halide::Func out, Halide::Func lse, const MergeTuning &, const Halide::Target &);

}  // namespace attune
