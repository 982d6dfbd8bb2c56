// SPDX-License-Identifier: MIT
// A lane holds rows of queries or keys and what is summed for them, and meets the rows of the other side one after the other:
// what it loads of one is used for all of its rows, for both products and for the sum. As in cuda_simt.cpp nothing needs shared
// memory or a barrier.
#include "schedules/sdpa/lane_schedules.h"

namespace attune {
using namespace Halide;

void schedule_lane_gradient(LaneGradient &g, const LanesTuning &tuning) {
    const Var j = g.j, r = g.r, t = g.t;
    const int terms = tuning.terms();
    RVar block("block");
    const LoopLevel whole_call(g.out, deal_to_lanes(g.out, {g.element, g.row, g.share, g.row_lane}, tuning, block));
    g.out.compute_root().update().reorder({block, g.h, g.b}).gpu_blocks(block, g.h, g.b);

    for (Func f : {g.own, g.own_other}) load_in_lane(keep_in_lane(f, whole_call, tuning, 1, terms), tuning);
    keep_in_lane(g.running, whole_call, tuning).unroll(j);
    int update = 0;
    for (LanePairs *p : {&g.full, &g.part}) {
        Stage running = g.running.update(update++);
        std::vector<VarOrRVar> loops = {j, r, p->running_key, p->running_chunk};
        if (p->has_heads) loops.emplace_back(p->running_head);
        running.reorder(loops).unroll(j).unroll(r).unroll(p->running_key).never_partition_all();
        const LoopLevel met(g.running, p->running_key);
        for (Func f : {p->met, p->met_other}) load_in_lane(keep_in_lane(f, met, tuning, 1, terms), tuning);
        auto shares = [&](Func f, const RVar &channel) {
            keep_in_lane(f, met, tuning, 1, terms).update().reorder(r, t, channel).unroll(r).unroll(t).unroll(channel);
        };
        shares(p->part_score, p->channel);
        if (p->part_gradient.defined()) shares(p->part_gradient, p->other_channel);
        keep_in_lane(p->of_pair.logit, met, tuning);
        int step = 0;
        for (const RVar &row : p->of_pair.steps) p->of_pair.logit.update(step++).unroll(row);
        keep_in_lane(p->of_pair.weight, met, tuning);
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
