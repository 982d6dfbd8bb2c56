#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

void schedule_root(SdpaStages &s, Halide::Func out) {
    for (Halide::Func *f : {&s.query_t, &s.row_begin, &s.row_end, &s.part.score, &s.part.logit, &s.part.row_max, &s.part.weight,
                            &s.part.row_sum, &s.part.mixed, &s.chunk_max, &s.chunk_sum, &s.chunk_mixed, &s.total_max,
                            &s.chunk_scale, &s.total_sum, &s.total_mixed, &s.normalised, &s.lse})
        f->compute_root();
    out.compute_root();
}

}  // namespace attune
