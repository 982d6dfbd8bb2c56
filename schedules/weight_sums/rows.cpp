// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/weight_sums/weight_sums_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(WeightSumsStages &s, Func out, const WeightSumsParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.sum.type());
    require_multiple("block", parameters.block, "the vector width", lanes);
    require_multiple("task_keys", parameters.task_keys, "block", parameters.block);
    const Var j = s.j, h = s.h;
    Var task("task"), key("key"), block("block"), place("place");

    out.split(j, task, key, parameters.task_keys, TailStrategy::GuardWithIf)
        .split(key, block, place, parameters.block, TailStrategy::GuardWithIf)
        .reorder(place, block, task, h)
        .fuse(task, h, task)
        .parallel(task)
        .vectorize(place, lanes);
    // All weights of a block before the next block: its sums stay in registers. `before` may be the memory of `out`, of which a
    // block is read whole before any of it is written.
    s.sum.compute_at(out, block).bound_extent(j, parameters.block).bound_extent(h, 1).vectorize(j, lanes).unroll(j);
    s.sum.update().reorder(j, s.head, s.query).vectorize(j, lanes).unroll(j);
}

}  // namespace attune
