// SPDX-License-Identifier: MIT
// Schedules of the largest magnitude, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/max_magnitude/max_magnitude_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(MaxMagnitudeStages &, Halide::Func out);

struct MaxMagnitudeParameters {
    int task_rows;  // rows of a task (the stages' rows_per_tile)
    int block;      // channels that are read together (the stages' block), a multiple of the vector width
};
// One task is a tile of rows. Lanes are channels. The maxima of the tasks are combined by one thread at the end.
void schedule_rows(MaxMagnitudeStages &, Halide::Func out, const MaxMagnitudeParameters &, const Halide::Target &);

}  // namespace attune
