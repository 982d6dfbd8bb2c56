// SPDX-License-Identifier: MIT
// Weights or scores: all of a tile's rows at a time, all keys; lanes are queries, and what leaves is transposed in blocks.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_weights(const WeightsTuning &tuning, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(tuning.tile_q, tuning.chunk, kernel);
    hints.query_block = query_block_of(tuning.tile_q, tuning.chunk, kernel);
    hints.joins_passes = true;
    return hints;
}

void schedule_weights(WeightsStages &w, Func out, const WeightsTuning &tuning, const Target &target) {
    SdpaStages &s = w.s;
    const int lanes = target.natural_vector_size(s.query_t.type());
    require(tuning.tile_q > 0, "tile_q must be given");
    require_multiple("tile_q", tuning.tile_q, "the vector width", lanes);
    require_multiple("chunk", tuning.chunk, "key_tile", tuning.key_tile);
    const Var r = s.r, t = s.t, h = s.h, b = s.b, j = out.args()[0], i = out.args()[1];
    Var task("task"), row("row"), row_block("row_block"), key("key"), key_block("key_block");
    require(!w.transposed.empty(), "tile_q and chunk must be even");
    const int side = w.transposed[0].side;
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_prepared(s.prepared, lanes);

    out.split(i, t, row, tuning.tile_q, TailStrategy::GuardWithIf)
        .split(row, row_block, row, side)
        .split(j, key_block, key, side, TailStrategy::GuardWithIf)
        .reorder(key, row, key_block, row_block, t, h, b)
        .fuse(t, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(key)
        .unroll(row);
    // From registers to memory: no other row or key wants a block.
    schedule_transpose(w.transposed[0], {out, key_block});
    schedule_query(s, {out, task}, lanes, one_task);
    for (Func f : {s.row_begin, s.row_end, s.total_max, s.total_sum, s.chunk_scale, w.share, w.chunk})
        lanes_are_rows(f.compute_at(out, task));
    s.total_max.update().vectorize(r, lanes);
    s.total_sum.update().vectorize(r, lanes);
    one_task(w.weight.compute_at(out, task));
    int stage = 0;
    for (auto &[chunk, partials] : {std::pair(w.full, s.full), std::pair(w.part, s.part)}) {
        Func made_weight = chunk.made_weight;
        const LoopLevel of_chunk(w.weight, chunk.chunk);
        for (Stage f : {w.weight.update(stage), w.chunk.update(stage)})
            f.reorder(r, chunk.key, chunk.chunk).vectorize(r, lanes).unroll(r);
        w.chunk.update(stage).compute_with(w.weight.update(stage), chunk.key);
        stage++;
        lanes_are_rows(made_weight.compute_at(w.weight, chunk.key)).unroll(r);
        schedule_scores(s, partials, of_chunk, lanes, one_task);
        schedule_row_max(s, partials, of_chunk, lanes, one_task);
    }
    w.weight.update(stage).reorder(r, w.unseen_key, w.unseen_chunk).vectorize(r, lanes).unroll(r);
}

}  // namespace attune
