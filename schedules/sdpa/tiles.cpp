// SPDX-License-Identifier: MIT
// What the schedules with one task for a tile of queries share: tasks, merge, and the loop over chunks.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_tiles(int tile_q, int chunk, const SdpaKernel &kernel) {
    const int side = block_side(kernel.accumulator, {tile_q, chunk});
    return {.rows_per_tile = tile_q,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = kernel.reads_tables ? side : 0,
            .widens_chunks = true};
}

int query_block_of(int tile_q, int chunk, const SdpaKernel &kernel) {
    const int side = block_side(kernel.accumulator, {tile_q, chunk});
    return !kernel.additive && kernel.head_dim % side == 0 && tile_q % side == 0 ? side : 0;
}

void require_tiles(const PrefillTuning &tuning, int lanes, Expr value_dim) {
    require_multiple("tile_q", tuning.tile_q, "the vector width", lanes);
    require(tuning.tile_q > 0, "tile_q must be given");
    require_multiple("chunk", tuning.chunk, "key_tile", tuning.key_tile);
    if (const auto size = Internal::as_const_int(value_dim))
        require_multiple("the head size", static_cast<int>(*size), "channel_tile", tuning.channel_tile);
}

OneTask one_chunk_of(const SdpaStages &s, int tile_q) {
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

Var schedule_tasks(SdpaStages &s, Func out, const PrefillTuning &tuning, int lanes, const OneTask &one_task) {
    const Var r = s.r, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), dO("do"), di("di");
    // Constant extents, or stages would get heap storage and strides known at run time only.
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_prepared(s.prepared, lanes);

    // Tasks. Guarded, because the last tile of queries may be ragged.
    out.split(i, t, row, tuning.tile_q, TailStrategy::GuardWithIf);
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

    // Merge, once per task. Weighted values are summed over the chunks in registers, a few channels at a time.
    for (Func f : {s.total_max, s.total_sum, s.chunk_scale, s.lse}) lanes_are_rows(f.compute_at(out, task));
    s.total_max.update().vectorize(r, lanes);
    s.total_sum.update().vectorize(r, lanes);
    s.normalised.compute_at(out, task).split(d, dO, di, tuning.channel_tile, TailStrategy::RoundUp).reorder(r, di, dO);
    lanes_are_rows(s.normalised).unroll(r).unroll(di);
    lanes_are_rows(s.total_mixed.compute_at(s.normalised, dO)).unroll(r).unroll(d);
    s.total_mixed.update().reorder(r, d, s.mixed_chunk).vectorize(r, lanes).unroll(r).unroll(d);

    for (Func f : {s.chunk_mixed, s.chunk_sum, s.chunk_max}) one_task(f.compute_at(out, task));
    return task;
}

void schedule_chunk_sums(SdpaStages &s, int stage, Stage mixed, const RVar &chunk, int lanes) {
    Stage sum = s.chunk_sum.update(stage), max = s.chunk_max.update(stage);
    for (Stage f : {sum, max}) f.reorder(s.r, chunk, s.t, s.h, s.b).vectorize(s.r, lanes).unroll(s.r);
    sum.compute_with(mixed, chunk);
    max.compute_with(sum, chunk);
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

TileLoops schedule_tiles(SdpaStages &s, Func out, const PrefillTuning &tuning, int lanes, const OneTask &one_task) {
    const Var task = schedule_tasks(s, out, tuning, lanes, one_task);
    const Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di"), line("line");
    int stage = 0;
    for (const RVar &chunk : {s.full_chunk, s.part_chunk}) {
        Stage mixed = s.chunk_mixed.update(stage);
        mixed.split(d, dO, di, tuning.channel_tile).reorder(r, di, dO, chunk, t, h, b).vectorize(r, lanes).unroll(r).unroll(di);
        if (tuning.line_channels > 0)
            mixed.split(dO, line, dO, tuning.line_channels / tuning.channel_tile, TailStrategy::GuardWithIf);
        schedule_chunk_sums(s, stage++, mixed, chunk, lanes);
    }
    return {task, dO, line};
}

}  // namespace attune
