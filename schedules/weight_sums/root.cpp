// SPDX-License-Identifier: MIT
#include "schedules/weight_sums/weight_sums_schedules.h"

namespace attune {

void schedule_root(WeightSumsStages &s, Halide::Func out) {
    s.sum.compute_root();
    out.compute_root();
}

}  // namespace attune
