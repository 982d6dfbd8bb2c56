// SPDX-License-Identifier: MIT
#include "schedules/head_mean/head_mean_schedules.h"

namespace attune {

void schedule_root(HeadMeanStages &s, Halide::Func out) {
    s.sum.compute_root();
    out.compute_root();
}

}  // namespace attune
