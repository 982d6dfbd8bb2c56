// SPDX-License-Identifier: MIT
#include "schedules/masked_softmax/masked_softmax_schedules.h"

namespace attune {

void schedule_root(MaskedSoftmaxStages &s, Halide::Func out) {
    for (Halide::Func *f : {&s.last_score, &s.place_max, &s.place_order, &s.row_order, &s.row_max, &s.weight, &s.place_sum,
                            &s.row_sum, &s.masked_weight, &s.scale})
        f->compute_root();
    out.compute_root();
}

}  // namespace attune
