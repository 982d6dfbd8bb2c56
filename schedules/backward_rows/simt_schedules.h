// SPDX-License-Identifier: MIT
// GPU schedules of the gradient of sinks and of the last sum of a gradient. No equation, no Func of their own.
#pragma once
#include "generators/attention/backward/row_stages.h"

namespace attune {

// A block is a head. Each lane sums every `lanes`-th query of all entries, and the first one the sums of all lanes: the order
// is fixed, so bits are the same each time.
void schedule_sink_gradient_simt(SinkGradientStages &, Halide::Func out, int lanes);

// A lane is an element of the gradient, which it sums in the order of the keys.
void schedule_capture_sum_simt(CaptureSumStages &, Halide::Func out, int lanes);

}  // namespace attune
