// SPDX-License-Identifier: MIT
// How what the gradients of attention need of each query is computed.
#pragma once
#include "generators/attention/backward/row_stages.h"

namespace attune {

void schedule_root(BackwardRowsStages &, Halide::Func out);
// One task for a head. Lanes are channels of a row, added at its end.
void schedule_rows(BackwardRowsStages &, Halide::Func out, const Halide::Target &);

void schedule_root(SinkGradientStages &, Halide::Func out);
void schedule_root(CaptureSumStages &, Halide::Func out);

}  // namespace attune
