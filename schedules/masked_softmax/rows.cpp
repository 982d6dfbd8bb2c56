// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/masked_softmax/masked_softmax_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(MaskedSoftmaxStages &s, Func out, Passes &passes, const ImageParam &scores,
                   const MaskedSoftmaxParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.weight.type());
    require_multiple("block", parameters.block, "the vector width", lanes);
    require(parameters.task_rows > 1, "task_rows must be at least 2: Halide does not compile tasks of one row");
    const Var e = s.e, j = s.j, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), jo("jo"), ji("ji");
    auto in_lanes = [&](Func f) -> Func { return f.bound(e, 0, parameters.block).vectorize(e, lanes).unroll(e); };

    out.split(i, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .reorder(j, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .split(j, jo, ji, parameters.block, TailStrategy::GuardWithIf)
        .vectorize(ji, lanes)
        .unroll(ji);

    auto block_of_lanes = [&](Stage f, const RVar &block) { f.reorder(e, block).vectorize(e, lanes).unroll(e); };
    in_lanes(s.last_score.compute_at(out, row)).store_in(MemoryType::Stack);
    s.last_score.update(0).allow_race_conditions().vectorize(s.pad, lanes).unroll(s.pad);
    s.last_score.update(1).allow_race_conditions().vectorize(s.rest, lanes).unroll(s.rest);
    in_lanes(s.weight.compute_at(out, row).hoist_storage(out, task));
    for (Func f : {s.place_max, s.place_sum}) in_lanes(f.compute_at(out, row)).store_in(MemoryType::Stack);
    for (Func f : {s.place_max, s.weight}) block_of_lanes(f.update(0), s.whole);
    block_of_lanes(s.weight.update(1), s.last);
    // A later row is prefetched while the exponentials of a row are computed, for processors that do not prefetch across pages.
    // The distance is in vectors of a block, because a prefetch of later blocks would be subject to the condition on blocks.
    if (parameters.prefetch_rows > 0) {
        const Expr ahead = parameters.prefetch_rows * scores.dim(1).stride() / lanes;
        passes.prefetches.push_back({scores, PrefetchRegion{s.weight.update(0), e, ahead, !parameters.prefetch_out}});
    }
    if (parameters.prefetch_out) {
        const int lines = parameters.block * s.weight.type().bytes() / cache_line_bytes;
        passes.prefetches.push_back({{}, PrefetchStores{{out, 0, j.name()}, {s.weight, 1, s.whole.name()}, lines}});
    }
    block_of_lanes(s.place_sum.update(), s.all);
    for (Func f : {s.row_order, s.row_sum}) f.compute_at(out, row).update().atomic().vectorize(s.place);
    for (Func f : {s.row_max, s.masked_weight, s.scale}) f.compute_at(out, row);
}

}  // namespace attune
