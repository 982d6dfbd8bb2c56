// SPDX-License-Identifier: MIT
// How a product with a transposed left matrix is computed: one free function per schedule. No equation, no Func of its own.
#pragma once
#include "generators/transposed_dot/transposed_dot_stages.h"
#include "schedules/linear/linear_schedules.h"

namespace attune {

// Every stage in full, one after the other: the oracle of the other. Has no parameters.
void schedule_root(TransposedDotStages &, Halide::Func out);

// One task is one tile of columns for some rows of out, as in linear layers; it takes all of the depth, a depth block at a
// time.
void schedule_panels(TransposedDotStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

}  // namespace attune
