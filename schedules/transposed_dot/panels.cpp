// SPDX-License-Identifier: MIT
#include "schedules/transposed_dot/transposed_dot_schedules.h"

namespace attune {
using namespace Halide;

void schedule_root(TransposedDotStages &s, Func out) {
    for (Func f : {s.place_bits, s.row_used, s.left}) f.compute_root();
    schedule_root(s.product, out);
}

void schedule_panels(TransposedDotStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    schedule_form(s.product, out, parameters, target);
    const int lanes = target.natural_vector_size(s.left.type());
    Var task("row_task"), row("row");

    // The rows that take part, found once for all tasks.
    constexpr int rows_of_a_task = 256;
    s.row_used.compute_root().vectorize(s.k, lanes, TailStrategy::GuardWithIf);
    s.row_used.update()
        .split(s.k, task, row, rows_of_a_task, TailStrategy::GuardWithIf)
        .reorder(s.place, row, task, s.h, s.b)
        .parallel(task)
        .atomic()
        .vectorize(s.place);
    s.place_bits.compute_at(s.row_used, row)
        .store_in(MemoryType::Stack)
        .bound_extent(s.e, s.places)
        .vectorize(s.e, lanes)
        .unroll(s.e);
    s.place_bits.update().reorder(s.e, s.place_block).vectorize(s.e, lanes).unroll(s.e);

    // A cache line of a row, for some register tiles: their depth block of the left matrix stays in L1.
    s.left.compute_at(s.product.product, s.product.product_depth_block)
        .bound(s.t, 0, s.tile)
        .reorder(s.t, s.m, s.k)
        .vectorize(s.t, lanes);
}

}  // namespace attune
