// SPDX-License-Identifier: MIT
// Tasks, merge, and the loop over KV blocks, for the schedules with one task for a tile of queries.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_tiles(int tile_q, int kv_block, const SdpaKernel &kernel) {
    const int side = block_side(kernel.accumulator, {tile_q, kv_block});
    return {.rows_per_tile = tile_q,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = kernel.reads_tables ? side : 0,
            .widens_kv_blocks = true};
}

int query_block_of(int tile_q, int kv_block, const SdpaKernel &kernel) {
    const int side = block_side(kernel.accumulator, {tile_q, kv_block});
    return !kernel.additive && kernel.head_dim % side == 0 && tile_q % side == 0 ? side : 0;
}

void require_tiles(const PrefillParameters &parameters, int lanes, Expr value_dim) {
    require_multiple("tile_q", parameters.tile_q, "the vector width", lanes);
    require(parameters.tile_q > 0, "tile_q must be given");
    require_multiple("kv_block", parameters.kv_block, "key_tile", parameters.key_tile);
    if (const auto size = Internal::as_const_int(value_dim))
        require_multiple("the head size", static_cast<int>(*size), "channel_tile", parameters.channel_tile);
}

OneTask one_kv_block_of(const SdpaStages &s, int tile_q) {
    return [=, task = one_task_of(s, tile_q)](Func &f) -> Func & {
        for (const Var &v : f.args())
            if (v.same_as(s.c)) f.bound_extent(v, 1);
        return task(f);
    };
}

OneTask one_task_of(const SdpaStages &s, int tile_q) {
    return [=](Func &f) -> Func & {
        for (const Var &v : f.args()) {
            if (v.same_as(s.r)) f.bound(v, 0, tile_q);
            if (v.same_as(s.t) || v.same_as(s.h) || v.same_as(s.b)) f.bound_extent(v, 1);
        }
        return f;
    };
}

Var schedule_tasks(SdpaStages &s, Func out, const PrefillParameters &parameters, int lanes, const OneTask &one_task) {
    const Var r = s.r, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), dO("do"), di("di");
    // Constant extents: otherwise stages would get heap storage and strides known at run time only.
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_prepared(s.prepared, lanes);

    // Tasks. Guarded, because the last tile of queries may be ragged.
    out.split(i, t, row, parameters.tile_q, TailStrategy::GuardWithIf);
    if (s.out_blocks) {
        Var row_block("row_block"), channel_block("channel_block"), channel("channel");
        out.split(row, row_block, row, s.out_blocks->side)
            .split(d, channel_block, channel, s.out_blocks->side, TailStrategy::PredicateStores)
            .reorder(channel, row, channel_block, row_block, t, h, b)
            .vectorize(channel)
            .unroll(row);
        schedule_transpose(*s.out_blocks, LoopLevel(out, channel_block));
    } else {
        out.reorder(d, row, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    }
    out.fuse(t, h, task).fuse(task, b, task).parallel(task);
    for (Func f : {s.row_begin, s.row_end}) lanes_are_rows(f.compute_at(out, task));

    // Merge, once per task. Weighted values are summed over the KV blocks in registers, a few channels at a time.
    for (Func f : {s.total_max, s.total_sum, s.block_scale, s.lse}) lanes_are_rows(f.compute_at(out, task));
    s.total_max.update().vectorize(r, lanes);
    s.total_sum.update().vectorize(r, lanes);
    s.normalised.compute_at(out, task).split(d, dO, di, parameters.channel_tile, TailStrategy::RoundUp).reorder(r, di, dO);
    lanes_are_rows(s.normalised).unroll(r).unroll(di);
    lanes_are_rows(s.total_pv.compute_at(s.normalised, dO)).unroll(r).unroll(d);
    s.total_pv.update().reorder(r, d, s.pv_block).vectorize(r, lanes).unroll(r).unroll(d);

    for (Func f : {s.block_pv, s.block_sum, s.block_max}) one_task(f.compute_at(out, task));
    return task;
}

void schedule_kv_block_sums(SdpaStages &s, int stage, Stage pv, const RVar &kv_block, int lanes) {
    Stage sum = s.block_sum.update(stage), max = s.block_max.update(stage);
    for (Stage f : {sum, max}) f.reorder(s.r, kv_block, s.t, s.h, s.b).vectorize(s.r, lanes).unroll(s.r);
    sum.compute_with(pv, kv_block);
    max.compute_with(sum, kv_block);
}

void schedule_query(SdpaStages &s, const LoopLevel &task, int lanes, const OneTask &one_task) {
    one_task(s.query_t.compute_at(task));
    if (!s.query_blocks) {
        s.query_t.vectorize(s.r, lanes).unroll(s.d, 4, TailStrategy::GuardWithIf);
        return;
    }
    Var channel_block("channel_block"), channel("channel");
    s.query_t.split(s.d, channel_block, channel, s.query_blocks->side, TailStrategy::RoundUp);
    schedule_blocks(s.query_t, s.query_t, s.r, channel, channel_block, {*s.query_blocks});
}

TileLoops schedule_tiles(SdpaStages &s, Func out, const PrefillParameters &parameters, int lanes, const OneTask &one_task) {
    const Var task = schedule_tasks(s, out, parameters, lanes, one_task);
    const Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di"), line("line");
    int stage = 0;
    for (const RVar &kv_block : {s.full_block, s.partial_block}) {
        Stage pv = s.block_pv.update(stage);
        pv.split(d, dO, di, parameters.channel_tile)
            .reorder(r, di, dO, kv_block, t, h, b)
            .vectorize(r, lanes)
            .unroll(r)
            .unroll(di);
        if (parameters.line_channels > 0)
            pv.split(dO, line, dO, parameters.line_channels / parameters.channel_tile, TailStrategy::GuardWithIf);
        schedule_kv_block_sums(s, stage++, pv, kv_block, lanes);
    }
    return {task, dO, line};
}

}  // namespace attune
