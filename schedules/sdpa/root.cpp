// SPDX-License-Identifier: MIT
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

ScheduleHints hints_for_root(const SdpaKernel &kernel) { return {.ragged_dims = kernel.head_dim == 0, .widens_chunks = true}; }

void schedule_root(SdpaStages &s, Halide::Func out) {
    for (Halide::Func f : s.prepared) f.compute_root();
    for (Halide::Func *f : {&s.query_t,      &s.row_begin,    &s.row_end,      &s.part.score,    &s.part.logit,
                            &s.part.row_max, &s.part.weight,  &s.part.row_sum, &s.part.wide_key, &s.part.wide_value,
                            &s.part.random,  &s.part.dropped, &s.part.mixed,   &s.chunk_max,     &s.chunk_sum,
                            &s.chunk_mixed,  &s.total_max,    &s.chunk_scale,  &s.total_sum,     &s.total_mixed,
                            &s.normalised,   &s.lse})
        if (f->defined()) f->compute_root();
    out.compute_root();
}

void schedule_weights_root(WeightsStages &w, Halide::Func out) {
    for (Halide::Func f : w.s.prepared) f.compute_root();
    for (Halide::Func *f :
         {&w.s.query_t, &w.s.row_begin, &w.s.row_end, &w.s.part.wide_key, &w.s.part.score, &w.s.part.logit, &w.s.part.row_max,
          &w.part.made_weight, &w.weight, &w.chunk, &w.s.total_max, &w.s.chunk_scale, &w.s.total_sum, &w.share})
        if (f->defined()) f->compute_root();
    out.compute_root();
}

}  // namespace attune
