// SPDX-License-Identifier: MIT
#include "schedules/merge/merge_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(MergeStages &s, Func out, Func lse, const MergeParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.share_a.type());
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row");

    out.split(i, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .reorder(d, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.empty_a, s.empty_b, s.share_a, s.share_b})
        f.compute_at(out, task).bound_extent(i, parameters.task_rows).bound_extent(h, 1).bound_extent(b, 1).vectorize(i, lanes);

    // A row of lse costs little, so its tasks are longer.
    lse.split(i, task, row, 16 * parameters.task_rows, TailStrategy::GuardWithIf)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(row, lanes, TailStrategy::GuardWithIf);
}

}  // namespace attune
