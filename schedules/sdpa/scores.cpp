// SPDX-License-Identifier: MIT
// What the schedules whose lanes are queries share: the scores of one chunk.
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

void schedule_logits(const SdpaStages &s, const SdpaPartials &partials, const LoopLevel &chunk, int lanes,
                     const OneTask &one_task) {
    const Var r = s.r;
    SdpaPartials p = partials;
    one_task(p.logit.compute_at(chunk));
    p.logit.update(0).reorder(r, p.logit_keys.key, p.logit_keys.block).vectorize(r, lanes).unroll(r).unroll(p.logit_keys.key);
    for (const ScoreUpdate &step : p.steps) {
        if (step.tables.empty())
            p.logit.update(step.update).reorder(r, step.keys.key, step.keys.block).vectorize(r, lanes).unroll(r);
        else
            schedule_blocks(p.logit.update(step.update), p.logit, r, step.keys.key, step.keys.block, step.tables);
    }
}

void schedule_scores(const SdpaStages &s, const SdpaPartials &partials, const LoopLevel &chunk, int lanes,
                     const OneTask &one_task) {
    const Var r = s.r, k = s.k;
    SdpaPartials p = partials;
    if (p.wide_key.defined()) one_task(p.wide_key.compute_at(chunk)).vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    // First product: a register tile of tile_q rows by key_block keys.
    schedule_logits(s, p, chunk, lanes, one_task);
    one_task(p.score.compute_at(p.logit, p.logit_keys.block)).vectorize(r, lanes).unroll(r).unroll(k);
    p.score.update().reorder(r, k, p.channel).vectorize(r, lanes).unroll(r).unroll(k);
}

// One of them is joined to the other's loop.
static bool same_keys(const KeyLoop &a, const KeyLoop &b) { return a.key.name() == b.key.name(); }

void schedule_row_max(const SdpaStages &s, const SdpaPartials &partials, const LoopLevel &chunk, int lanes,
                      const OneTask &one_task) {
    SdpaPartials p = partials;
    one_task(p.row_max.compute_at(chunk)).vectorize(s.r, lanes).unroll(s.r);
    Stage max = p.row_max.update().reorder(s.r, p.max_keys.key, p.max_keys.block).vectorize(s.r, lanes).unroll(s.r);
    if (same_keys(p.max_keys, p.logit_keys)) max.unroll(p.max_keys.key).compute_with(p.logit.update(0), p.logit_keys.block);
}

void schedule_softmax(const SdpaStages &s, const SdpaPartials &partials, const LoopLevel &chunk, int lanes,
                      const OneTask &one_task) {
    const Var r = s.r, k = s.k;
    SdpaPartials p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_row_max(s, p, chunk, lanes, one_task);
    lanes_are_rows(p.row_sum.compute_at(chunk)).unroll(r);
    Func sums = p.row_sum;
    if (p.block_sum.defined()) {
        p.row_sum.update().vectorize(r, lanes).unroll(r);
        sums = lanes_are_rows(p.block_sum.compute_at(chunk)).unroll(r);
    }
    sums.update().reorder(r, p.sum_keys.key, p.sum_keys.block).vectorize(r, lanes).unroll(r);
    one_task(p.weight.compute_at(chunk));
    if (same_keys(p.sum_keys, p.weight_keys)) {
        sums.update().compute_with(p.weight.update(0), p.weight_keys.key);
        lanes_are_rows(p.made_weight.compute_at(p.weight, p.weight_keys.key)).unroll(r);
    }
    p.weight.update(0).reorder(r, p.weight_keys.key, p.weight_keys.block).vectorize(r, lanes).unroll(r);
    if (p.dropped.defined() && !p.random.defined()) {
        one_task(p.dropped.compute_at(chunk)).vectorize(r, lanes);
    } else if (p.dropped.defined()) {
        Var four("four_of_keys"), in_four("in_four"), block("row_block"), lane("lane");
        p.dropped.compute_at(chunk)
            .split(k, four, in_four, 4)
            .split(r, block, lane, lanes)
            .reorder(lane, in_four, block, four)
            .vectorize(lane)
            .unroll(in_four);
        one_task(p.dropped);
        p.random.compute_at(p.dropped, block).vectorize(r, lanes);
    }
}

// The sum of every key_blocks blocks of keys, which is added to that of the chunk at its end.
static Func sum_in_blocks(const SdpaStages &s, Func mixed_func, Stage mixed, const RVar &block, int key_blocks, int lanes,
                          const OneTask &one_task) {
    RVar sum_of_blocks("sum");
    Var of_sum("of_sum");
    Func sums = mixed.split(block, sum_of_blocks, block, key_blocks).rfactor(sum_of_blocks, of_sum);
    mixed.reorder(s.r, s.d, sum_of_blocks).vectorize(s.r, lanes).unroll(s.r).unroll(s.d);
    one_task(sums.compute_at(mixed_func, sum_of_blocks).store_in(MemoryType::Stack).bound_extent(of_sum, 1));
    sums.vectorize(s.r, lanes).unroll(s.r).unroll(s.d);
    return sums;
}

void schedule_chunk(const SdpaStages &s, const SdpaPartials &partials, const LoopLevel &chunk, const LoopLevel &channels,
                    bool in_blocks, int lanes, const OneTask &one_task, int sum_blocks) {
    const Var r = s.r, d = s.d;
    SdpaPartials p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    // Second product: a register tile of all rows by some channels.
    lanes_are_rows(p.mixed.compute_at(channels)).unroll(r).unroll(d);
    for (std::size_t n = 0; n < p.mixed_keys.size(); n++) {
        const KeyLoop &keys = p.mixed_keys[n];
        Stage mixed = p.mixed.update(int(n));
        if (sum_blocks) mixed = sum_in_blocks(s, p.mixed, mixed, keys.block, sum_blocks, lanes, one_task).update();
        mixed.reorder(r, d, keys.key, keys.block).vectorize(r, lanes).unroll(r).unroll(d);
        if (in_blocks) mixed.unroll(keys.key);
    }

    schedule_softmax(s, p, chunk, lanes, one_task);
    schedule_scores(s, p, chunk, lanes, one_task);
}

}  // namespace attune
