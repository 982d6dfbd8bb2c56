#include "schedules/masked_softmax/masked_softmax_schedules.h"
#include "schedules/require.h"

namespace attune {
using namespace Halide;

void schedule_rows(MaskedSoftmaxStages &s, Func out, const MaskedSoftmaxTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.weight.type());
    require_multiple("block", tuning.block, "the vector width", lanes);
    const Var e = s.e, j = s.j, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), jo("jo"), ji("ji");
    auto in_lanes = [&](Func f) -> Func { return f.bound(e, 0, tuning.block).vectorize(e, lanes).unroll(e); };

    out.split(i, task, row, tuning.task_rows, TailStrategy::GuardWithIf)
        .reorder(j, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .split(j, jo, ji, tuning.block, TailStrategy::GuardWithIf)
        .vectorize(ji, lanes)
        .unroll(ji);

    for (Func f : {s.score, s.weight}) f.compute_at(out, row).hoist_storage(out, task);
    s.score.update(0).allow_race_conditions().vectorize(s.pad, lanes).unroll(s.pad);
    s.score.update(1).vectorize(s.copied, lanes, TailStrategy::GuardWithIf);
    in_lanes(s.weight).update().reorder(e, s.block).vectorize(e, lanes).unroll(e);
    for (Func f : {s.place_max, s.place_sum}) {
        in_lanes(f.compute_at(out, row)).store_in(MemoryType::Stack);
        f.update().reorder(e, s.block).vectorize(e, lanes).unroll(e);
    }
    for (Func f : {s.row_order, s.row_sum}) f.compute_at(out, row).update().atomic().vectorize(s.place);
    for (Func f : {s.row_max, s.masked_weight, s.scale}) f.compute_at(out, row);
}

}  // namespace attune
