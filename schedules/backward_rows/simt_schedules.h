// SPDX-License-Identifier: MIT
// GPU schedule of the gradient of sinks. No equation, no Func of its own.
#pragma once
#include "generators/attention/backward/row_stages.h"

namespace attune {

// A block is a head. Each lane sums every `lanes`-th query of all entries, and the first one the sums of all lanes: the order
// is fixed, so bits are the same each time.
void schedule_sink_gradient_simt(SinkGradientStages &, Halide::Func out, int lanes);

}  // namespace attune
