// SPDX-License-Identifier: MIT
// Schedules of the row stages of attention's gradients.
#pragma once
#include "generators/attention/backward/row_stages.h"

namespace attune {

void schedule_root(BackwardRowsStages &, Halide::Func out);
// One task is one head. Lanes are channels of a row, summed at its end.
void schedule_rows(BackwardRowsStages &, Halide::Func out, const Halide::Target &);

void schedule_root(SinkGradientStages &, Halide::Func out);
void schedule_root(CaptureSumStages &, Halide::Func out);

}  // namespace attune
