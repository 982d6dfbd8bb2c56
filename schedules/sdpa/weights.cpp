// SPDX-License-Identifier: MIT
// Weights or scores: all rows of a tile and all keys; lanes are queries, and the output is transposed in blocks.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_weights(const WeightsParameters &parameters, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(parameters.tile_q, parameters.kv_block, kernel);
    hints.query_block = query_block_of(parameters.tile_q, parameters.kv_block, kernel);
    hints.joins_passes = true;
    return hints;
}

void schedule_weights(WeightsStages &w, Func out, const WeightsParameters &parameters, const Target &target) {
    SdpaStages &s = w.s;
    const int lanes = target.natural_vector_size(s.query_t.type());
    require(parameters.tile_q > 0, "tile_q must be given");
    require_multiple("tile_q", parameters.tile_q, "the vector width", lanes);
    require_multiple("kv_block", parameters.kv_block, "key_tile", parameters.key_tile);
    const Var r = s.r, t = s.t, h = s.h, b = s.b, j = out.args()[0], i = out.args()[1];
    Var task("task"), row("row"), row_block("row_block"), key("key"), key_block("key_block");
    require(!w.transposed.empty(), "tile_q and kv_block must be even");
    const int side = w.transposed[0].side;
    const OneTask one_task = one_task_of(s, parameters.tile_q);
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_prepared(s.prepared, lanes);

    out.split(i, t, row, parameters.tile_q, TailStrategy::GuardWithIf)
        .split(row, row_block, row, side)
        .split(j, key_block, key, side, TailStrategy::GuardWithIf)
        .reorder(key, row, key_block, row_block, t, h, b)
        .fuse(t, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(key)
        .unroll(row);
    // From registers to memory: no other row or key reads a block.
    schedule_transpose(w.transposed[0], {out, key_block});
    schedule_query(s, {out, task}, lanes, one_task);
    for (Func f : {s.row_begin, s.row_end, s.total_max, s.total_sum, s.block_scale, w.share, w.kv_block})
        lanes_are_rows(f.compute_at(out, task));
    s.total_max.update().vectorize(r, lanes);
    s.total_sum.update().vectorize(r, lanes);
    one_task(w.weight.compute_at(out, task));
    int stage = 0;
    for (auto &[kv_block, partials] : {std::pair(w.full, s.full), std::pair(w.partial, s.partial)}) {
        Func made_weight = kv_block.made_weight;
        const LoopLevel of_kv_block(w.weight, kv_block.kv_block);
        for (Stage f : {w.weight.update(stage), w.kv_block.update(stage)})
            f.reorder(r, kv_block.key, kv_block.kv_block).vectorize(r, lanes).unroll(r);
        w.kv_block.update(stage).compute_with(w.weight.update(stage), kv_block.key);
        stage++;
        lanes_are_rows(made_weight.compute_at(w.weight, kv_block.key)).unroll(r);
        schedule_qk_and_scores(s, partials, of_kv_block, lanes, one_task);
        schedule_row_max(s, partials, of_kv_block, lanes, one_task);
    }
    w.weight.update(stage).reorder(r, w.unseen_key, w.unseen_block).vectorize(r, lanes).unroll(r);
}

}  // namespace attune
