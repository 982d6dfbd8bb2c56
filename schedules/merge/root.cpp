// SPDX-License-Identifier: MIT
#include "schedules/merge/merge_schedules.h"

namespace attune {

void schedule_root(MergeStages &s, Halide::Func out, Halide::Func lse) {
    for (Halide::Func *f : {&s.empty_a, &s.empty_b, &s.share_a, &s.share_b}) f->compute_root();
    out.compute_root();
    lse.compute_root();
}

}  // namespace attune
