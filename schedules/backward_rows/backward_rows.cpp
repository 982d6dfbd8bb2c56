// SPDX-License-Identifier: MIT
#include "schedules/backward_rows/backward_rows_schedules.h"
#include "schedules/half_lanes.h"

namespace attune {
using namespace Halide;

void schedule_root(BackwardRowsStages &s, Func out) {
    s.product.compute_root();
    s.largest.compute_root();
    out.compute_root();
}

void schedule_rows(BackwardRowsStages &s, Func out, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    Var task("task"), lane("lane");
    RVar co("co"), ci("ci");
    out.fuse(s.h, s.b, task).parallel(task);
    s.product.compute_at(out, s.i);
    Func in_lanes = s.product.update().split(s.channel, co, ci, lanes).rfactor(ci, lane);
    in_lanes.compute_at(s.product, s.i).vectorize(lane).update().vectorize(lane);
    sum_by_halves(s.product, ci, lanes, lanes, LoopLevel(s.product, s.i));
    s.largest.compute_at(out, s.i).update().atomic().vectorize(s.largest_channel, lanes);
}

void schedule_root(SinkGradientStages &s, Func out) {
    s.sum.compute_root();
    out.compute_root();
}

void schedule_root(CaptureSumStages &s, Func out) {
    s.sum.compute_at(out, s.j);
    out.compute_root();
}

}  // namespace attune
