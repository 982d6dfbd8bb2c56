// SPDX-License-Identifier: MIT
// Scores of one KV block, for the schedules whose lanes are queries.
#include "schedules/sdpa/sdpa_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void schedule_prepared(const std::vector<Func> &prepared, int lanes) {
    for (Func f : prepared) {
        f.compute_root();
        if (f.has_update_definition() || f.dimensions() == 0) continue;
        f.vectorize(f.args()[0], lanes, TailStrategy::GuardWithIf);
        if (f.dimensions() == 4) f.fuse(f.args()[2], f.args()[3], f.args()[3]).parallel(f.args()[3]);
    }
}

void schedule_scores(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, int lanes,
                     const OneTask &one_task) {
    const Var r = s.r;
    KvBlockStages p = partials;
    one_task(p.score.compute_at(kv_block));
    p.score.update(0)
        .reorder(r, p.score_keys.key, p.score_keys.subblock)
        .vectorize(r, lanes)
        .unroll(r)
        .unroll(p.score_keys.key);
    for (const ScoreUpdate &step : p.steps) {
        if (step.tables.empty())
            p.score.update(step.update).reorder(r, step.keys.key, step.keys.subblock).vectorize(r, lanes).unroll(r);
        else
            schedule_blocks(p.score.update(step.update), p.score, r, step.keys.key, step.keys.subblock, step.tables);
    }
}

void schedule_qk_and_scores(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, int lanes,
                            const OneTask &one_task) {
    const Var r = s.r, k = s.k;
    KvBlockStages p = partials;
    if (p.wide_key.defined()) one_task(p.wide_key.compute_at(kv_block)).vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    // First product: a register tile of tile_q rows by kv_subblock keys.
    schedule_scores(s, p, kv_block, lanes, one_task);
    one_task(p.qk.compute_at(p.score, p.score_keys.subblock)).vectorize(r, lanes).unroll(r).unroll(k);
    p.qk.update().reorder(r, k, p.channel).vectorize(r, lanes).unroll(r).unroll(k);
}

// Whether one loop over keys is fused with the other.
static bool same_keys(const KeyLoop &a, const KeyLoop &b) { return a.key.name() == b.key.name(); }

void schedule_row_max(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, int lanes,
                      const OneTask &one_task) {
    KvBlockStages p = partials;
    one_task(p.row_max.compute_at(kv_block)).vectorize(s.r, lanes).unroll(s.r);
    Stage max = p.row_max.update().reorder(s.r, p.max_keys.key, p.max_keys.subblock).vectorize(s.r, lanes).unroll(s.r);
    if (same_keys(p.max_keys, p.score_keys)) max.unroll(p.max_keys.key).compute_with(p.score.update(0), p.score_keys.subblock);
}

Func schedule_row_sum(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, int lanes,
                      const OneTask &one_task) {
    KvBlockStages p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f.compute_at(kv_block)).vectorize(s.r, lanes).unroll(s.r); };
    const Func sum = lanes_are_rows(p.row_sum);
    if (!p.subblock_sum.defined()) return sum;
    p.row_sum.update().vectorize(s.r, lanes).unroll(s.r);
    return lanes_are_rows(p.subblock_sum);
}

void schedule_softmax(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, int lanes,
                      const OneTask &one_task) {
    const Var r = s.r, k = s.k;
    KvBlockStages p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_row_max(s, p, kv_block, lanes, one_task);
    Func sums = schedule_row_sum(s, p, kv_block, lanes, one_task);
    sums.update().reorder(r, p.sum_keys.key, p.sum_keys.subblock).vectorize(r, lanes).unroll(r);
    one_task(p.weight.compute_at(kv_block));
    if (same_keys(p.sum_keys, p.weight_keys)) {
        sums.update().compute_with(p.weight.update(0), p.weight_keys.key);
        lanes_are_rows(p.made_weight.compute_at(p.weight, p.weight_keys.key)).unroll(r);
    }
    p.weight.update(0).reorder(r, p.weight_keys.key, p.weight_keys.subblock).vectorize(r, lanes).unroll(r);
    if (p.dropped.defined() && !p.random.defined()) {
        one_task(p.dropped.compute_at(kv_block)).vectorize(r, lanes);
    } else if (p.dropped.defined()) {
        Var four("four_of_keys"), in_four("in_four"), block("row_block"), lane("lane");
        p.dropped.compute_at(kv_block)
            .split(k, four, in_four, 4)
            .split(r, block, lane, lanes)
            .reorder(lane, in_four, block, four)
            .vectorize(lane)
            .unroll(in_four);
        one_task(p.dropped);
        p.random.compute_at(p.dropped, block).vectorize(r, lanes);
    }
}

// Sums of `subblocks` blocks of keys each, which are added to the KV block's sum at its end.
static Func sum_in_blocks(const SdpaStages &s, Func pv_func, Stage pv, const RVar &block, int subblocks, int lanes,
                          const OneTask &one_task) {
    RVar sum_of_blocks("sum");
    Var of_sum("of_sum");
    Func sums = pv.split(block, sum_of_blocks, block, subblocks).rfactor(sum_of_blocks, of_sum);
    pv.reorder(s.r, s.d, sum_of_blocks).vectorize(s.r, lanes).unroll(s.r).unroll(s.d);
    one_task(sums.compute_at(pv_func, sum_of_blocks).store_in(MemoryType::Stack).bound_extent(of_sum, 1));
    sums.vectorize(s.r, lanes).unroll(s.r).unroll(s.d);
    return sums;
}

void schedule_kv_block(const SdpaStages &s, const KvBlockStages &partials, const LoopLevel &kv_block, const LoopLevel &channels,
                       bool in_blocks, int lanes, const OneTask &one_task, int sum_blocks) {
    const Var r = s.r, d = s.d;
    KvBlockStages p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    // Second product: a register tile of all rows by some channels.
    lanes_are_rows(p.pv.compute_at(channels)).unroll(r).unroll(d);
    for (std::size_t n = 0; n < p.pv_keys.size(); n++) {
        const KeyLoop &keys = p.pv_keys[n];
        Stage pv = p.pv.update(int(n));
        if (sum_blocks) pv = sum_in_blocks(s, p.pv, pv, keys.subblock, sum_blocks, lanes, one_task).update();
        pv.reorder(r, d, keys.key, keys.subblock).vectorize(r, lanes).unroll(r).unroll(d);
        if (in_blocks) pv.unroll(keys.key);
    }

    schedule_softmax(s, p, kv_block, lanes, one_task);
    schedule_qk_and_scores(s, p, kv_block, lanes, one_task);
}

}  // namespace attune
