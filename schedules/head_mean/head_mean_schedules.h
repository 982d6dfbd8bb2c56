// SPDX-License-Identifier: MIT
// How the mean over heads is computed: one free function per schedule. No equation, no Func of its own but wrappers.
#pragma once
#include "generators/head_mean/head_mean_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no parameters.
void schedule_root(HeadMeanStages &, Halide::Func out);

struct HeadMeanParameters {
    int task_keys;  // keys of a row that are one task, a multiple of block
    int block;      // keys whose sums stay in registers while the heads are added, a multiple of the vector width
};
// One task is a piece of a row. Lanes are keys.
void schedule_rows(HeadMeanStages &, Halide::Func out, const HeadMeanParameters &, const Halide::Target &);

}  // namespace attune
