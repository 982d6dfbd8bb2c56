// SPDX-License-Identifier: MIT
// Schedules of the sums of weights by key, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/weight_sums/weight_sums_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(WeightSumsStages &, Halide::Func out);

struct WeightSumsParameters {
    int task_keys;  // keys of a task, a multiple of block
    int block;      // keys whose sums stay in registers while the weights are added, a multiple of the vector width
};
// One task is some keys of a group. Lanes are keys.
void schedule_rows(WeightSumsStages &, Halide::Func out, const WeightSumsParameters &, const Halide::Target &);

}  // namespace attune
