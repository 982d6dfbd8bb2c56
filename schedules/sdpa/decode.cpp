// Split-KV: one task is one chunk of keys of one key head, so that a single long sequence uses every core. The rows are the
// queries of all heads that share the key head: K and V are read once for the group, in memory order. Lanes are channels.
#include "schedules/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

void schedule_split_merge(SdpaStages &s, Func out, int lanes) {
    const Var r = s.r, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    constexpr int rows_of_merge = 64;  // fewer are not worth waking other threads
    Var task("task"), merge("merge");
    schedule_prepared(s.prepared, lanes);
    out.reorder(d, i, h, b)
        .fuse(i, h, task)
        .fuse(task, b, task)
        .split(task, merge, task, rows_of_merge, TailStrategy::GuardWithIf)
        .parallel(merge)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.total_max, s.total_sum, s.chunk_scale, s.lse}) f.compute_at(out, task);
    s.normalised.compute_at(out, task).reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_mixed.compute_at(out, task).reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_mixed.update().reorder(d, r, s.mixed_chunk).vectorize(d, lanes, TailStrategy::GuardWithIf);
}

void schedule_decode(SdpaStages &s, Func out, const DecodeTuning &tuning, const Target &target, Expr value_dim) {
    const bool any_dims = !Internal::is_const(value_dim);
    const int lanes = target.natural_vector_size(s.query_t.type());
    require(tuning.row_tile > 0, "tile_q must be given");
    require_multiple("chunk", tuning.chunk, "key_block", tuning.key_block);
    require_multiple("key_block", tuning.key_block, "key_tile", tuning.key_tile);
    require_multiple("key_block", tuning.key_block, "value_block", tuning.value_block);
    require_multiple("key_block", tuning.key_block, "the vector width", lanes);
    if (const auto size = Internal::as_const_int(value_dim))
        require_multiple("the head size", static_cast<int>(*size), "the vector width", lanes);
    const Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di"), lane("lane");
    RVar ko("ko"), ki("ki"), chunk_task("chunk_task"), block("block"), in_block("in_block"), mo("mo"), mi("mi");

    schedule_split_merge(s, out, lanes);
    // One parallel loop over chunks gives maximum, sum and weighted values, which are channels of one Func.
    Func packed = s.chunk_packed;
    packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, tuning.row_tile);
    // Channels are contiguous in Q, and in the scores and weights keys are.
    s.query_t.compute_root()
        .reorder_storage(d, r, t, h, b)
        .reorder(d, r, t, h, b)
        .bound(r, 0, tuning.row_tile)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);

    // No two keys of a block are one; Halide does not see it through the block.
    auto along_keys = [&](Stage f, const KeyLoop &keys) {
        f.reorder(keys.key, r, keys.block).allow_race_conditions().vectorize(keys.key, lanes);
    };
    int stage = 0;
    for (const auto &[partials, chunk] : {std::pair(s.full, s.full_chunk), std::pair(s.part, s.part_chunk)}) {
        SdpaPartials p = partials;
        packed.update(stage)
            .reorder(d, r, t, chunk, h, b)
            .fuse(chunk, h, chunk_task)
            .fuse(chunk_task, b, chunk_task)
            .parallel(chunk_task)
            .vectorize(d, lanes, TailStrategy::GuardWithIf);
        if (!any_dims) packed.update(stage).unroll(d);  // the selects between the three fold away

        // Scores: lanes of partial sums over the channels, added up across lanes at the end.
        p.logit.compute_at(packed, t).reorder_storage(k, r, c, t, h, b);
        p.logit.update(0)
            .split(p.logit_keys.key, ko, ki, tuning.key_tile)
            .reorder(ki, r, ko, p.logit_keys.block)
            .unroll(ki)
            .unroll(r);
        for (const ScoreUpdate &step : p.steps) along_keys(p.logit.update(step.update), step.keys);
        if (p.dropped.defined() && !p.random.defined()) {
            p.dropped.compute_at(packed, t).reorder_storage(k, r, c, t, h, b).reorder(k, r).vectorize(k, lanes);
            p.dropped.bound(r, 0, tuning.row_tile);
        } else if (p.dropped.defined()) {
            Var four("four_of_keys"), in_four("in_four");
            p.dropped.compute_at(packed, t)
                .reorder_storage(k, r, c, t, h, b)
                .split(k, four, in_four, 4)
                .reorder(in_four, four, r)
                .unroll(in_four)
                .vectorize(four, lanes)
                .bound(r, 0, tuning.row_tile);
            p.random.compute_at(packed, t)
                .reorder_storage(p.random.args()[1], r, c, t, h, b)
                .reorder(p.random.args()[1], r)
                .vectorize(p.random.args()[1], lanes)
                .bound(r, 0, tuning.row_tile);
        }
        RVar co("co"), ci("ci");
        Func lane_score = p.score.update().split(p.channel, co, ci, lanes).rfactor(ci, lane);
        std::vector<Func> sums = {p.score, lane_score};
        lane_score.compute_at(p.logit, ko).reorder_storage(lane, k, r, c, t, h, b).vectorize(lane).unroll(k).unroll(r);
        lane_score.update().reorder(lane, r, co, k).vectorize(lane).unroll(r).unroll(k);
        if (any_dims)
            lane_score.update().reorder(lane, r, k, co);
        else
            lane_score.update().unroll(co);
        // Halves are added until one lane is left: code generation would add the lanes of a vector one after another.
        for (int width = lanes / 2; width > 1; width /= 2) {
            Var half_lane("lane" + std::to_string(width));
            RVar half("half"), rest("rest" + std::to_string(width));
            Func half_score = p.score.update().split(ci, half, rest, width).rfactor(rest, half_lane);
            half_score.compute_at(p.logit, ko).reorder_storage(half_lane, k, r, c, t, h, b);
            half_score.vectorize(half_lane).unroll(k).unroll(r);
            half_score.update().reorder(half_lane, half, k, r).vectorize(half_lane).unroll(half).unroll(k).unroll(r);
            sums.push_back(half_score);
            ci = rest;
        }
        p.score.compute_at(p.logit, ko).unroll(k).unroll(r);
        p.score.update().reorder(ci, k, r).unroll(ci).unroll(k).unroll(r);
        for (Func f : sums) f.bound_extent(k, tuning.key_tile).bound(r, 0, tuning.row_tile).store_in(MemoryType::Stack);

        // Softmax: lanes are keys.
        for (const auto &[f, keys] : {std::pair(p.row_max, p.max_keys), std::pair(p.row_sum, p.sum_keys)}) {
            Func reduced = f;
            Func lane_reduced = reduced.update().split(keys.key, mo, mi, lanes).rfactor(mi, lane);
            reduced.compute_at(packed, t).update().atomic().vectorize(mi);
            lane_reduced.compute_at(reduced, r).vectorize(lane).update().vectorize(lane);
        }
        p.weight.compute_at(packed, t).reorder_storage(k, r, c, t, h, b);
        along_keys(p.weight.update(0), p.weight_keys);

        // Weighted values: the first row streams a block of V in, the other rows find it in L1.
        p.mixed.compute_at(packed, t).reorder_storage(d, r, c, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
        for (std::size_t n = 0; n < p.mixed_keys.size(); n++)
            p.mixed.update(int(n))
                .split(p.mixed_keys[n].key, block, in_block, tuning.value_block)
                .split(d, dO, di, lanes * tuning.channel_tile, TailStrategy::GuardWithIf)
                .reorder(di, r, in_block, dO, block, p.mixed_keys[n].block)
                .vectorize(di, lanes)
                .unroll(di)
                .unroll(r);
        for (Func f : {p.logit, p.row_max, p.row_sum, p.weight, p.mixed}) f.bound(r, 0, tuning.row_tile);
        // Of constant size: no allocation in a task that may be short.
        for (Func f : {p.logit, p.weight}) f.bound(k, 0, tuning.chunk);
        // What is small and of constant size. The stack of others is freed as if it were heap where a later request for memory
        // fails (Halide 21).
        constexpr int small = 16 * 1024;
        if (tuning.chunk * tuning.row_tile * p.weight.type().bytes() <= small)
            for (Func f : {p.logit, p.weight}) f.store_in(MemoryType::Stack);
        stage++;
    }
}

}  // namespace attune
