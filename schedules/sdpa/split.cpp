// SPDX-License-Identifier: MIT
// Split-KV for more rows than decode takes: one task is one KV block of one key head, and lanes are the rows, the queries of
// all heads that share the key head. Within a task the schedule is prefill's.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <algorithm>

namespace attune {
using namespace Halide;

ScheduleHints hints_for_split(const PrefillParameters &parameters, const SdpaKernel &kernel) {
    return {.rows_per_tile = parameters.tile_q,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = 1,
            .widens_kv_blocks = true,
            .joins_passes = true,
            .whole_blocks = true,
            // For few queries most subblocks are seen whole.
            .asks_finite_values = false};
}

void schedule_split(SdpaStages &s, Func out, const PrefillParameters &parameters, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(parameters, lanes, value_dim);
    require_multiple("kv_block", parameters.kv_block, "the keys of a sum", std::max(parameters.sum_keys, 1));
    require_multiple("the keys of a sum", parameters.sum_keys, "key_tile", parameters.key_tile);
    const Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di");
    // Bounds of rows alone: with heads and batch bounded too, Halide 21 computes every KV block in each task.
    const OneTask one_task = [&](Func &f) -> Func & {
        for (const Var &v : f.args())
            if (v.same_as(r)) f.bound(r, 0, parameters.tile_q);
        return f;
    };
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_split_merge(s, out, lanes);
    // The address of a row, found by a division, once for all its channels.
    Var rows("rows"), lane("lane");
    s.query_t.compute_root().bound(r, 0, parameters.tile_q).split(r, rows, lane, lanes).reorder(lane, d, rows).vectorize(lane);

    Func packed = s.block_packed;
    packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, parameters.tile_q);
    int stage = 0;
    for (const auto &[partials, kv_block] : {std::pair(s.full, s.full_block), std::pair(s.partial, s.partial_block)}) {
        KvBlockStages p = partials;
        RVar task("task");
        packed.update(stage)
            .reorder(d, r, t, kv_block, h, b)
            .fuse(kv_block, h, task)
            .fuse(task, b, task)
            .parallel(task)
            .vectorize(d, lanes, TailStrategy::GuardWithIf);

        // Weighted values in register tiles of all rows by some channels.
        Func pv = p.pv.in(packed);
        one_task(pv.compute_at(packed, t).split(d, dO, di, parameters.channel_tile, TailStrategy::RoundUp))
            .reorder(r, di, dO)
            .vectorize(r, lanes)
            .unroll(r)
            .unroll(di);
        // Blocks are of key_tile keys where some may be left out, else of sum_keys.
        const int sum_blocks = parameters.sum_keys == 0 ? 0 : stage == 1 ? parameters.sum_keys / parameters.key_tile : 1;
        schedule_kv_block(s, p, {packed, t}, {pv, dO}, stage == 1, lanes, one_task, sum_blocks);
        if (p.wide_value.defined())
            one_task(p.wide_value.compute_at(packed, t))
                .align_bounds(d, parameters.channel_tile)
                .vectorize(d, lanes, TailStrategy::GuardWithIf);
        stage++;
    }
}

}  // namespace attune
