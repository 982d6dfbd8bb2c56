// SPDX-License-Identifier: MIT
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

ScheduleHints hints_for_root(const SdpaKernel &kernel) {
    return {.ragged_dims = kernel.head_dim == 0, .widens_kv_blocks = true};
}

void schedule_root(SdpaStages &s, Halide::Func out) {
    for (Halide::Func f : s.prepared) f.compute_root();
    for (Halide::Func *f : {&s.query_t,          &s.row_begin,
                            &s.row_end,          &s.partial.qk,
                            &s.partial.score,    &s.partial.row_max,
                            &s.partial.weight,   &s.partial.row_sum,
                            &s.partial.wide_key, &s.partial.wide_value,
                            &s.partial.random,   &s.partial.dropped,
                            &s.partial.pv,       &s.block_max,
                            &s.block_sum,        &s.block_pv,
                            &s.total_max,        &s.block_scale,
                            &s.total_sum,        &s.total_pv,
                            &s.normalised,       &s.lse})
        if (f->defined()) f->compute_root();
    out.compute_root();
}

void schedule_weights_root(WeightsStages &w, Halide::Func out) {
    for (Halide::Func f : w.s.prepared) f.compute_root();
    for (Halide::Func *f : {&w.s.query_t, &w.s.row_begin, &w.s.row_end, &w.s.partial.wide_key, &w.s.partial.qk,
                            &w.s.partial.score, &w.s.partial.row_max, &w.partial.made_weight, &w.weight, &w.kv_block,
                            &w.s.total_max, &w.s.block_scale, &w.s.total_sum, &w.share})
        if (f->defined()) f->compute_root();
    out.compute_root();
}

}  // namespace attune
