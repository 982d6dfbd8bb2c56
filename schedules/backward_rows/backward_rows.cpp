#include "schedules/backward_rows/backward_rows_schedules.h"

namespace attune {
using namespace Halide;

void schedule_root(BackwardRowsStages &s, Func out) {
    s.product.compute_root();
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
    // Halves are added until one lane is left: code generation would add the lanes of a vector one after another.
    for (int width = lanes / 2; width > 1; width /= 2) {
        Var half_lane("lane" + std::to_string(width));
        RVar half("half"), rest("rest" + std::to_string(width));
        Func half_sum = s.product.update().split(ci, half, rest, width).rfactor(rest, half_lane);
        half_sum.compute_at(s.product, s.i).vectorize(half_lane);
        half_sum.update().reorder(half_lane, half).vectorize(half_lane).unroll(half);
        ci = rest;
    }
    s.product.update().unroll(ci);
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
