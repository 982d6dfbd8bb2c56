// SPDX-License-Identifier: MIT
#include "schedules/merge/merge_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// Values that each row has once, computed for some rows at a time in a loop of an output.
void schedule_shares(MergeShares &shares, const MergeStages &s, Func at, const Var &loop, int rows, int lanes, bool in_sums) {
    const auto schedule = [&](Func f) {
        f.compute_at(at, loop).bound_extent(s.i, rows).bound_extent(s.h, 1).bound_extent(s.b, 1).vectorize(s.i, lanes);
    };
    for (Func *f : shares.over_parts()) {
        if (in_sums && f == &shares.last) continue;  // of lse alone
        schedule(*f);
        f->update().vectorize(s.i, lanes);
    }
    for (Func f : shares.weight) schedule(f);
    if (!in_sums) return;
    for (Func f : shares.empty) schedule(f);
    for (Func f : shares.share) schedule(f);
}

}  // namespace

void schedule_rows(MergeStages &s, MergeOutputs to, const MergeParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.of_out.sum.type());
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row");

    for (auto [out, shares] : {std::pair(to.out, &s.of_out), {to.sum, &s.of_sum}}) {
        out.split(i, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
            .reorder(d, row, task, h, b)
            .fuse(task, h, task)
            .fuse(task, b, task)
            .parallel(task)
            .vectorize(d, lanes, TailStrategy::GuardWithIf);
        schedule_shares(*shares, s, out, task, parameters.task_rows, lanes, true);
    }
    // Two parts are the usual case. There is no sum before the first part, which must not be read.
    to.out.specialize(to.is_pair);
    for (Func f : {to.out, to.sum}) f.specialize(to.begins);

    // A row of lse costs little, so its tasks are longer.
    Var lane("lane");
    to.lse.split(i, row, lane, lanes, TailStrategy::GuardWithIf)
        .split(row, task, row, (16 * parameters.task_rows + lanes - 1) / lanes, TailStrategy::GuardWithIf)
        .reorder(lane, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(lane);
    schedule_shares(s.of_lse, s, to.lse, row, lanes, lanes, false);
}

}  // namespace attune
