// SPDX-License-Identifier: MIT
#include "schedules/transform_rows/rows_schedules.h"
#include <algorithm>
#include <initializer_list>
#include <utility>

namespace attune {
using namespace Halide;

namespace {

// The 16 sums of a row are a vector, or a few, in registers.
void schedule_sum(RowSum &s, const LoopLevel &row) {
    int places = RowSum::places;
    const Var e("e");
    s.of_places.compute_at(row).store_in(MemoryType::Stack).bound(e, 0, places).vectorize(e);
    s.of_places.update().vectorize(e);
    for (Func f : s.halves) f.compute_at(row).store_in(MemoryType::Stack).bound(e, 0, places /= 2).vectorize(e);
}

void schedule_weight(RowWeight &s, int lanes) {
    s.weight.compute_root().vectorize(Var("d"), lanes, TailStrategy::GuardWithIf);
    s.weight.update(0).unscheduled();
    s.weight.update(1).unscheduled();
}

// Updates of `rotated` from number n on. Each channel has a place of its own, which Halide cannot tell.
void schedule_pairs(RopeLoops &s, Func rotated, int n, int lanes) {
    for (const RVar &r : {s.before, s.after}) rotated.update(n++).vectorize(r, lanes, TailStrategy::GuardWithIf);
    for (const auto &[number, pair] : {std::pair(s.in_half_pair, s.half_pair), std::pair(s.in_near_pair, s.near_pair)})
        rotated.update(n++).allow_race_conditions().unroll(number).vectorize(pair, lanes, TailStrategy::GuardWithIf);
}

void schedule_butterflies(ButterflyLoops &s, Func mixed, int n, int lanes) {
    Stage stage = mixed.update(n).allow_race_conditions().unroll(s.difference);
    // Half blocks of head sizes in use are whole vectors, whose number the compiler knows.
    for (int half : {64, 32}) {
        const RVar vector("vector"), lane("lane");
        stage.specialize(s.half == half).split(s.place, vector, lane, lanes).vectorize(lane).unroll(vector);
    }
    stage.vectorize(s.place, std::min(lanes, 8), TailStrategy::GuardWithIf);
}

// Stages of one row, computed in its loop.
void schedule_steps(RowTransform &s, const LoopLevel &row, const LoopLevel &task, const Target &target) {
    const int lanes = target.natural_vector_size(s.mixed.type());
    schedule_weight(s.weight, lanes);
    schedule_sum(s.norm.squares, row);
    s.norm.factor.compute_at(row);
    s.mixed.compute_at(row).hoist_storage(task);
    schedule_pairs(s.rope, s.mixed, 0, lanes);
    schedule_butterflies(s.butterfly, s.mixed, 4, lanes);
}

// Loops of an output: tasks of rows. Rows have places of their own, which the caller has checked, so that they never race.
Stage task_loops(const StoreLoops &o, const RVar &task, const RVar &row, const RowsParameters &parameters) {
    Func out = o.out;
    Stage stage = out.update();
    stage.allow_race_conditions()
        .split(o.t, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .reorder(o.h, row, task, o.b)
        .parallel(o.b)
        .parallel(task);
    return stage;
}

}  // namespace

void schedule_rows(TransformRowsStages &s, const RowsParameters &parameters, const Target &target) {
    const RVar task("task"), row("row");
    task_loops(s.out, task, row, parameters)
        .vectorize(s.out.d, target.natural_vector_size(s.mixed.type()), TailStrategy::GuardWithIf);
    schedule_steps(s, {s.out.out, s.out.h}, {s.out.out, task}, target);
}

void schedule_rows(QuantiseRowsStages &s, const RowsParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(Float(32));
    const RVar task("task"), row("row");
    const Var e = s.vars.e, d = s.vars.d;
    // One pass over the rows for all outputs.
    Stage first = task_loops(s.int8, task, row, parameters);
    first.vectorize(s.int8.d, lanes, TailStrategy::GuardWithIf);
    for (StoreLoops *o : {&s.int4, &s.scale_f32, &s.scale_f16, &s.minimum_f16}) {
        Stage stage = task_loops(*o, task, row, parameters);
        if (o == &s.int4) stage.vectorize(o->d, lanes, TailStrategy::GuardWithIf);
        stage.compute_with(first, o->h);
    }
    const LoopLevel of_row(s.int8.out, s.int8.h), of_task(s.int8.out, task);
    schedule_steps(s, of_row, of_task, target);
    s.static_scale.compute_root().vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.static_scale.update().unscheduled();
    // Places of a row, or of a group, are vectors in registers.
    const auto places_at = [&](const LoopLevel &level, Func f, std::vector<Func> halves) {
        f.compute_at(level).bound(e, 0, RowSum::places).vectorize(e);
        f.update().vectorize(e);
        int places = RowSum::places;
        for (Func half : halves) half.compute_at(level).bound(e, 0, places /= 2).vectorize(e);
    };
    places_at(of_row, s.magnitudes, s.halves_of_magnitudes);
    places_at({s.low, s.g}, s.lowest, s.halves_of_lowest);
    places_at({s.high, s.g}, s.highest, s.halves_of_highest);
    s.scale.compute_at(of_row);
    // Groups are as many as a call has: their memory is allocated once a task.
    for (Func f : {s.low, s.high, s.minimum, s.step}) f.compute_at(of_row).hoist_storage(of_task);
}

void schedule_rows(TransformRowsBackwardStages &s, Func grad_x, Func grad_weight, const RowsParameters &parameters,
                   const Target &target) {
    const int lanes = target.natural_vector_size(s.dot.of_places.type());
    const Var d = s.vars.d, t = s.vars.t, h = s.vars.h, b = s.vars.b, n = s.n;
    const Var task("task"), row("row");
    const auto schedule_gradient = [&](RowGradient &g, const LoopLevel &at, const LoopLevel &of_task) {
        g.mixed.compute_at(at).hoist_storage(of_task);
        g.mixed.update(0).vectorize(d, lanes, TailStrategy::GuardWithIf);
        schedule_butterflies(g.butterfly, g.mixed, 1, lanes);
        g.turned.compute_at(at).hoist_storage(of_task);
        schedule_pairs(g.rope, g.turned, 0, lanes);
        schedule_sum(g.norm.squares, at);
        g.norm.factor.compute_at(at);
    };
    schedule_weight(s.weight, lanes);
    grad_x.split(t, task, row, parameters.task_rows, TailStrategy::GuardWithIf)
        .reorder(d, h, row, task, b)
        .parallel(b)
        .parallel(task)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    schedule_gradient(s.of_x, {grad_x, h}, {grad_x, task});
    schedule_sum(s.dot, {grad_x, h});

    s.tile_sum.compute_root().parallel(b).parallel(h).parallel(n).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.tile_sum.update()
        .reorder(d, s.row, n, h, b)
        .parallel(b)
        .parallel(h)
        .parallel(n)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    schedule_gradient(s.of_weight, {s.tile_sum, s.row}, {s.tile_sum, n});
    grad_weight.vectorize(d, lanes, TailStrategy::GuardWithIf);
    grad_weight.update().reorder(d, s.all_tiles, s.all_heads, s.all_batches, h).vectorize(d, lanes, TailStrategy::GuardWithIf);
}

}  // namespace attune
