// SPDX-License-Identifier: MIT
// SIMT schedule of the gradients. A lane holds rows of queries or keys and their sums, and loops over the streamed rows: it
// uses the loads of a streamed row for all of its rows, for both products and for the sum. As in cuda_simt.cpp there is no
// shared memory and no barrier.
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

void schedule_simt_gradient(SimtGradient &g, const SimtParameters &parameters) {
    const Var j = g.j, r = g.r, t = g.t;
    const int terms = parameters.terms();
    RVar block("block");
    const LoopLevel whole_call(g.out, distribute_to_lanes(g.out, {g.element, g.row, g.share, g.row_lane}, parameters, block));
    g.out.compute_root().update().reorder({block, g.h, g.b}).gpu_blocks(block, g.h, g.b);

    for (Func f : {g.resident, g.resident_other}) load_in_lane(keep_in_lane(f, whole_call, parameters, 1, terms), parameters);
    keep_in_lane(g.accumulator, whole_call, parameters).unroll(j);
    int update = 0;
    for (SimtPairs *p : {&g.full, &g.partial}) {
        Stage accumulator = g.accumulator.update(update++);
        std::vector<VarOrRVar> loops = {j, r, p->sum_key, p->sum_block};
        if (p->has_heads) loops.emplace_back(p->sum_head);
        accumulator.reorder(loops).unroll(j).unroll(r).unroll(p->sum_key).never_partition_all();
        const LoopLevel streamed(g.accumulator, p->sum_key);
        for (Func f : {p->streamed, p->streamed_other})
            load_in_lane(keep_in_lane(f, streamed, parameters, 1, terms), parameters);
        auto shares = [&](Func f, const RVar &channel) {
            keep_in_lane(f, streamed, parameters, 1, terms).update().reorder(r, t, channel).unroll(r).unroll(t).unroll(channel);
        };
        shares(p->qk_share, p->channel);
        if (p->weight_gradient_share.defined()) shares(p->weight_gradient_share, p->other_channel);
        keep_in_lane(p->of_pair.score, streamed, parameters);
        int step = 0;
        for (const RVar &row : p->of_pair.steps) p->of_pair.score.update(step++).unroll(row);
        keep_in_lane(p->of_pair.weight, streamed, parameters);
    }
}

void schedule_device_rows(BackwardRowsStages &s, Func rows, int loaded) {
    Var block("block"), lane("lane");
    RVar loads("loads"), together("together");
    rows.compute_root()
        .split(s.i, block, lane, lanes_in_step, TailStrategy::GuardWithIf)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    s.product.compute_at(rows, lane).store_in(MemoryType::Register);
    for (const Var &v : s.product.args()) s.product.bound_extent(v, 1);
    // Loads of neighbours become one.
    if (loaded > 1) s.product.update().split(s.channel, loads, together, loaded).unroll(together);
}

}  // namespace attune
