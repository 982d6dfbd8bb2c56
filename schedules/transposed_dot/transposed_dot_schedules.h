// SPDX-License-Identifier: MIT
// Schedules of a product with a transposed left matrix, one free function each. No equation, no Func of their own.
#pragma once
#include "generators/transposed_dot/transposed_dot_stages.h"
#include "schedules/linear/linear_schedules.h"

namespace attune {

// Every stage in full, one after the other: the oracle of the other. No parameters.
void schedule_root(TransposedDotStages &, Halide::Func out);

// One task is one tile of columns for some rows of out, as in linear layers; it takes all of the depth, a depth block at a
// time.
void schedule_panels(TransposedDotStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

}  // namespace attune
