// SPDX-License-Identifier: MIT
// Schedules of the dropout mask, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/dropout_mask/dropout_mask_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(DropoutMaskStages &, Halide::Func out);

struct DropoutMaskParameters {
    int task_rows;  // rows of a task
};
// One task is some rows. Lanes are groups of four keys, which share a counter.
void schedule_rows(DropoutMaskStages &, Halide::Func out, const DropoutMaskParameters &, Halide::Expr dense,
                   const Halide::Target &);

}  // namespace attune
