// SPDX-License-Identifier: MIT
#include "schedules/dropout_mask/dropout_mask_schedules.h"

namespace attune {

void schedule_root(DropoutMaskStages &s, Halide::Func out) {
    s.kept.compute_root();
    out.compute_root();
}

}  // namespace attune
