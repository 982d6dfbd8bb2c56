// SPDX-License-Identifier: MIT
// Schedules of the mean over heads, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/head_mean/head_mean_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(HeadMeanStages &, Halide::Func out);

struct HeadMeanParameters {
    int task_keys;  // keys of a row in a task, a multiple of block
    int block;      // keys whose sums stay in registers while the heads are added, a multiple of the vector width
};
// One task is a piece of a row. Lanes are keys.
void schedule_rows(HeadMeanStages &, Halide::Func out, const HeadMeanParameters &, const Halide::Target &);

}  // namespace attune
