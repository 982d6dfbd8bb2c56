// SPDX-License-Identifier: MIT
#include "schedules/linear/linear_schedules.h"

namespace attune {

void schedule_root(PanelStages &s, Halide::Func out) {
    for (Halide::Func *f : {&s.panel, &s.x_rows, &s.partial, &s.start, &s.product})
        if (f->defined()) f->compute_root();
    out.compute_root();
}

}  // namespace attune
