// SPDX-License-Identifier: MIT
#include "schedules/max_magnitude/max_magnitude_schedules.h"

namespace attune {

void schedule_root(MaxMagnitudeStages &m, Halide::Func out) {
    for (Halide::Func *f : {&m.tile_max, &m.place_max, &m.batch_max}) f->compute_root();
    out.compute_root();
}

}  // namespace attune
