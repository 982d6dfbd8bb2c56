// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/head_mean/head_mean_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(HeadMeanStages &s, Func out, const HeadMeanParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.sum.type());
    require_multiple("block", parameters.block, "the vector width", lanes);
    require_multiple("task_keys", parameters.task_keys, "block", parameters.block);
    const Var j = s.j, i = s.i, b = s.b;
    Var task("task"), key("key"), block("block"), place("place");

    out.split(j, task, key, parameters.task_keys, TailStrategy::GuardWithIf)
        .split(key, block, place, parameters.block, TailStrategy::GuardWithIf)
        .reorder(place, block, task, i, b)
        .fuse(task, i, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(place, lanes);
    // All heads of a block before the next block: its sums stay in registers.
    s.sum.compute_at(out, block)
        .bound_extent(j, parameters.block)
        .bound_extent(i, 1)
        .bound_extent(b, 1)
        .vectorize(j, lanes)
        .unroll(j);
    s.sum.update().reorder(j, s.head).vectorize(j, lanes).unroll(j);
}

}  // namespace attune
