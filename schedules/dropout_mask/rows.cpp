// SPDX-License-Identifier: MIT
#include "schedules/dropout_mask/dropout_mask_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(DropoutMaskStages &s, Func out, const DropoutMaskParameters &parameters, Expr dense, const Target &target) {
    const int lanes = target.natural_vector_size(UInt(32));
    const Var j = s.j, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), jo("jo"), ji("ji");

    out.split(i, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .split(j, jo, ji, 4 * lanes, TailStrategy::GuardWithIf)
        .reorder(ji, jo, row, task, h, b)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task);
    // Four vectors of bytes, interleaved on the way to memory.
    s.kept.compute_at(out, jo)
        .bound(s.word, 0, 4)
        .bound_extent(s.f, lanes)
        .store_in(MemoryType::Stack)
        .reorder(s.word, s.f)
        .vectorize(s.f)
        .unroll(s.word);
    out.specialize(dense).vectorize(ji);
}

}  // namespace attune
