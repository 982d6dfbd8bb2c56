// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/half_lanes.h"
#include "schedules/masked_softmax_backward/masked_softmax_backward_schedules.h"

namespace attune {
using namespace Halide;

void schedule_root(MaskedSoftmaxBackwardStages &s, Func out) {
    for (Func f : {s.last_product, s.place_sum, s.row_sum}) f.compute_root();
    out.compute_root();
}

void schedule_rows(MaskedSoftmaxBackwardStages &s, Func out, const MaskedSoftmaxBackwardParameters &parameters,
                   const Target &target) {
    const int lanes = target.natural_vector_size(s.place_sum.type());
    require_multiple("block", parameters.block, "the vector width", lanes);
    const Var e = s.e, j = s.j, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), jo("jo"), ji("ji");
    out.split(i, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .reorder(j, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .split(j, jo, ji, parameters.block, TailStrategy::GuardWithIf)
        .vectorize(ji, lanes)
        .unroll(ji);
    for (Func f : {s.last_product, s.place_sum})
        f.compute_at(out, row).store_in(MemoryType::Stack).bound(e, 0, parameters.block).vectorize(e, lanes).unroll(e);
    s.place_sum.update().reorder(e, s.whole).vectorize(e, lanes).unroll(e);
    s.row_sum.compute_at(out, row);
    sum_by_halves(s.row_sum, s.place, parameters.block, lanes, LoopLevel(out, row));
}

}  // namespace attune
