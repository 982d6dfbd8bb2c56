// SPDX-License-Identifier: MIT
// Split-KV for more rows than decode takes: one task is one chunk of keys of one key head, and lanes are the rows, which are
// the queries of all heads that share the key head. Within a task it is prefill.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <algorithm>

namespace attune {
using namespace Halide;

ScheduleHints hints_for_split(const PrefillTuning &tuning, const SdpaKernel &kernel) {
    return {.rows_per_tile = tuning.tile_q,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = 1,
            .widens_chunks = true,
            .joins_passes = true,
            .whole_blocks = true,
            // Blocks of the keys of few queries are whole for the most part.
            .asks_finite_values = false};
}

void schedule_split(SdpaStages &s, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(tuning, lanes, value_dim);
    require_multiple("chunk", tuning.chunk, "the keys of a sum", std::max(tuning.sum_keys, 1));
    require_multiple("the keys of a sum", tuning.sum_keys, "key_tile", tuning.key_tile);
    const Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di");
    // Of rows alone: with heads and batch bounded too, Halide 21 takes every chunk to be wanted in a task.
    const OneTask one_task = [&](Func &f) -> Func & {
        for (const Var &v : f.args())
            if (v.same_as(r)) f.bound(r, 0, tuning.tile_q);
        return f;
    };
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_split_merge(s, out, lanes);
    // A row's place in memory, found by a division, once for all its channels.
    Var rows("rows"), lane("lane");
    s.query_t.compute_root().bound(r, 0, tuning.tile_q).split(r, rows, lane, lanes).reorder(lane, d, rows).vectorize(lane);

    Func packed = s.chunk_packed;
    packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, tuning.tile_q);
    int stage = 0;
    for (const auto &[partials, chunk] : {std::pair(s.full, s.full_chunk), std::pair(s.part, s.part_chunk)}) {
        SdpaPartials p = partials;
        RVar task("task");
        packed.update(stage)
            .reorder(d, r, t, chunk, h, b)
            .fuse(chunk, h, task)
            .fuse(task, b, task)
            .parallel(task)
            .vectorize(d, lanes, TailStrategy::GuardWithIf);

        // Weighted values in register tiles of all rows by some channels.
        Func mixed = p.mixed.in(packed);
        one_task(mixed.compute_at(packed, t).split(d, dO, di, tuning.channel_tile, TailStrategy::RoundUp))
            .reorder(r, di, dO)
            .vectorize(r, lanes)
            .unroll(r)
            .unroll(di);
        // Blocks are of key_tile keys where some may be left out, else of sum_keys.
        const int sum_blocks = tuning.sum_keys == 0 ? 0 : stage == 1 ? tuning.sum_keys / tuning.key_tile : 1;
        schedule_chunk(s, p, {packed, t}, {mixed, dO}, stage == 1, lanes, one_task, sum_blocks);
        if (p.wide_value.defined()) one_task(p.wide_value.compute_at(packed, t)).vectorize(d, lanes, TailStrategy::GuardWithIf);
        stage++;
    }
}

}  // namespace attune
