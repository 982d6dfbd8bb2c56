// SPDX-License-Identifier: MIT
#include "schedules/transform_rows/rows_schedules.h"

namespace attune {
using namespace Halide;

namespace {

void sum_at_root(RowSum &s) {
    s.of_places.compute_root();
    for (Func f : s.halves) f.compute_root();
}
void norm_at_root(RowNorm &s) {
    sum_at_root(s.squares);
    s.factor.compute_root();
}
void steps_at_root(RowTransform &s) {
    s.weight.weight.compute_root();
    norm_at_root(s.norm);
    s.normed.compute_root();
    s.mixed.compute_root();
}

}  // namespace

void schedule_root(TransformRowsStages &s) { steps_at_root(s); }

void schedule_root(QuantiseRowsStages &s) {
    steps_at_root(s);
    for (Func f : {s.static_scale, s.magnitudes, s.lowest, s.highest, s.low, s.high, s.scale, s.minimum, s.step})
        f.compute_root();
    for (const auto *halves : {&s.halves_of_magnitudes, &s.halves_of_lowest, &s.halves_of_highest})
        for (Func f : *halves) f.compute_root();
}

void schedule_root(TransformRowsBackwardStages &s) {
    s.weight.weight.compute_root();
    for (RowGradient *g : {&s.of_x, &s.of_weight}) {
        g->mixed.compute_root();
        g->turned.compute_root();
        norm_at_root(g->norm);
    }
    sum_at_root(s.dot);
    s.tile_sum.compute_root();
}

}  // namespace attune
