// Split-KV: one task is one chunk of keys of one key head, so that a single long sequence uses every core. The rows are the
// queries of all heads that share the key head: K and V are read once for the group, in memory order. Lanes are channels.
#include "lowering/instructions/bf16.h"
#include "lowering/passes/prefetch.h"
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

void schedule_split_merge(SdpaStages &s, Func out, int lanes) {
    const Var r = s.r, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    constexpr int rows_of_merge = 64;  // fewer are not worth waking other threads
    Var task("task"), merge("merge"), row("row");
    schedule_prepared(s.prepared, lanes);
    out.split(i, t, row, 1)
        .reorder(d, row, t, h, b)
        .fuse(t, h, task)
        .fuse(task, b, task)
        .split(task, merge, task, rows_of_merge, TailStrategy::GuardWithIf)
        .parallel(merge)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.total_max, s.total_sum, s.chunk_scale, s.lse, s.normalised, s.total_mixed}) {
        f.compute_at(out, task);
        for (const Var &v : {r, t, h, b}) f.bound_extent(v, 1);
    }
    s.normalised.reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_mixed.reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_mixed.update().reorder(d, r, s.mixed_chunk).vectorize(d, lanes, TailStrategy::GuardWithIf);
}

bool decode_takes_pairs(const SdpaKernel &kernel, const Target &target) {
    return kernel.bf16_products && kernel.head_dim != 0 && kernel.head_dim % 32 == 0 && gains_by_pairs_of_bf16(target);
}

ScheduleHints hints_for_decode(const DecodeTuning &tuning, const SdpaKernel &kernel, const Target &target) {
    return {.rows_per_tile = tuning.row_tile,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = 1,
            .whole_blocks = true,
            // Blocks of the keys of few queries are whole for the most part.
            .asks_finite_values = decode_takes_pairs(kernel, target)};
}

int decode_channel_group(const Target &target, const Type &accumulator, int head_dim) {
    return head_dim == 0 ? target.natural_vector_size(accumulator) : 0;
}

// Values of any number of channels: sums of a block's keys are made in registers, and then added to those in memory, whose places
// are known at run time only. `mixed` has the loops block, over blocks of keys, and in_block.
static void schedule_mixed_of_any_size(const SdpaStages &s, Func mixed_func, Stage mixed, const KeyLoop &keys,
                                       const RVar &block, const RVar &in_block, const DecodeTuning &tuning, int lanes) {
    const Var r = s.r, d = s.d;
    Var of_keys("of_keys"), of_block("of_block"), dO("do"), di("di"), vectors("vectors");
    Func sums = mixed.rfactor({{keys.block, of_keys}, {block, of_block}});
    mixed.split(d, vectors, di, lanes, TailStrategy::RoundUp)
        .split(vectors, dO, vectors, tuning.channel_tile, TailStrategy::RoundUp)
        .reorder(di, vectors, r, dO, block, keys.block)
        .vectorize(di)
        .unroll(vectors)
        .unroll(r);
    sums.compute_at(mixed_func, dO).store_in(MemoryType::Stack).reorder_storage(d, r);
    sums.bound(r, 0, tuning.row_tile).bound_extent(d, lanes * tuning.channel_tile);
    for (const Var &v : {of_keys, of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    sums.vectorize(d, lanes).unroll(d).unroll(r);
    sums.update().reorder(d, r, in_block).vectorize(d, lanes).unroll(d).unroll(r);
}

// Sums of blocks of keys, each of them added to the weighted values of the chunk at its end: one key after another they would
// round off as often as a chunk has keys. `mixed` has the loop block over these blocks; the loops in them are left to the sums,
// which are returned.
static Func sum_in_blocks(const SdpaStages &s, Func mixed_func, Stage mixed, const RVar &block, const DecodeTuning &tuning,
                          int lanes) {
    const Var r = s.r, d = s.d;
    Var of_block("of_block");
    Func sums = mixed.rfactor(block, of_block);
    mixed.reorder(d, r, block).vectorize(d, lanes).unroll(r);
    sums.compute_at(mixed_func, block).store_in(MemoryType::Stack).reorder_storage(d, r).vectorize(d, lanes);
    sums.bound(r, 0, tuning.row_tile);
    for (const Var &v : {of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    return sums;
}

void schedule_decode(SdpaStages &s, Func out, const DecodeTuning &tuning, const Target &target, Expr value_dim,
                     const ImageParam &key, const ImageParam &value, PairStages *pairs) {
    const bool any_dims = !Internal::is_const(value_dim);
    const int lanes = target.natural_vector_size(s.full.logit.type()), elements = pairs ? 2 : 1;
    require(tuning.row_tile > 0, "tile_q must be given");
    require_multiple("chunk", tuning.chunk, "key_block", tuning.key_block);
    require_multiple("key_block", tuning.key_block, "key_tile", tuning.key_tile);
    require_multiple("key_block", tuning.key_block, "value_block", tuning.value_block);
    require_multiple("key_block", tuning.key_block, "the vector width", lanes);
    if (const auto size = Internal::as_const_int(value_dim))
        require_multiple("the head size", static_cast<int>(*size), "the vector width", lanes);
    require_multiple("prefetch_keys", tuning.prefetch_keys, "key_tile", tuning.key_tile);
    require_multiple("prefetch_keys", tuning.prefetch_keys, "value_block", tuning.value_block);
    require(tuning.value_rows == 0 || !any_dims, "value_rows is for one head size, which must be given");
    require(tuning.prefetch_keys == 0 || !any_dims, "prefetch_keys is for one head size, which must be given");
    const Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    Var dO("do"), di("di"), vectors("vectors"), some_rows("some_rows"), row("row"), lane("lane");
    RVar ko("ko"), ki("ki"), chunk_task("chunk_task"), block("block"), in_block("in_block"), mo("mo"), mi("mi");

    schedule_split_merge(s, out, lanes);
    // One parallel loop over chunks gives maximum, sum and weighted values, which are channels of one Func.
    Func packed = s.chunk_packed;
    packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, tuning.row_tile);
    // Channels are contiguous in Q, and in the scores and weights keys are.
    s.query_t.compute_root().reorder(d, r, t, h, b).bound(r, 0, tuning.row_tile);
    s.query_t.vectorize(d, lanes, TailStrategy::GuardWithIf);
    if (pairs)
        s.query_t.bound(pairs->e, 0, 2).reorder_storage(pairs->e, d, r, t, h, b).reorder(pairs->e, d).vectorize(pairs->e);
    else
        s.query_t.reorder_storage(d, r, t, h, b);

    // No two keys of a block are one; Halide does not see it through the block.
    auto along_keys = [&](Stage f, const KeyLoop &keys) {
        f.reorder(keys.key, r, keys.block).allow_race_conditions().vectorize(keys.key, lanes);
    };
    int stage = 0;
    for (const auto &[partials, chunk] : {std::pair(s.full, s.full_chunk), std::pair(s.part, s.part_chunk)}) {
        SdpaPartials p = partials;
        PairStages::Pairs *of_pairs = pairs ? (stage == 0 ? &pairs->full : &pairs->part) : nullptr;
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
            .allow_race_conditions()
            .vectorize(ki)
            .unroll(r);
        fetch_ahead(p.logit.update(0), key, ko, tuning.prefetch_keys / tuning.key_tile);
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
        Func lane_score = any_dims ? p.score.update().rfactor(p.channel, lane)
                                   : p.score.update().split(p.channel, co, ci, lanes).rfactor(ci, lane);
        if (any_dims) co = p.group, ci = p.channel;
        // Keys one after another, so that K is read in the order of memory; the sums of one are in registers. Of any head size they
        // take turns: a channel's sums of one key wait for each other.
        Func sums = lane_score.in(p.score);
        sums.compute_at(p.logit, ko).reorder_storage(lane, k, r, c, t, h, b).reorder(lane, r, k).vectorize(lane).unroll(r);
        lane_score.reorder_storage(lane, k, r, c, t, h, b).reorder(lane, r, k).vectorize(lane).unroll(r);
        lane_score.update().reorder(lane, r, k, co).vectorize(lane).unroll(r);
        if (any_dims) {
            lane_score.compute_at(p.logit, ko).bound_extent(k, tuning.key_tile).unroll(k).update().unroll(k);
            sums.unroll(k);
        } else {
            lane_score.compute_at(sums, k).bound_extent(k, 1).update().unroll(co);
        }
        if (pairs) lane_score.update().reorder(of_pairs->channel, lane).atomic().vectorize(of_pairs->channel);
        // All sums of a tile at once: two vectors give one of sums of neighbours, until each sum is one lane.
        p.score.compute_at(p.logit, ko).reorder_storage(k, r, c, t, h, b).vectorize(k).vectorize(r);
        p.score.update().reorder(ci, k, r).atomic().vectorize(ci).vectorize(k).vectorize(r);
        for (Func f : {p.score, sums})
            f.bound_extent(k, tuning.key_tile).bound(r, 0, tuning.row_tile).store_in(MemoryType::Stack);
        lane_score.bound(r, 0, tuning.row_tile).store_in(MemoryType::Stack);

        // Softmax: lanes are keys.
        auto lanes_of_keys = [&](Func f, const KeyLoop &keys, int width) {
            Func lane_reduced = f.update().split(keys.key, mo, mi, width).rfactor(mi, lane);
            f.compute_at(packed, t);
            lane_reduced.compute_at(f, r).vectorize(lane).update().vectorize(lane);
            return lane_reduced;
        };
        lanes_of_keys(p.row_max, p.max_keys, lanes);
        p.row_max.update().atomic().vectorize(mi);
        p.weight.compute_at(packed, t);
        if (pairs) {
            const Var e = pairs->e;
            Func sum = lanes_of_keys(of_pairs->pair_sum, p.sum_keys, lanes / 2);
            sum.bound_extent(e, 2).reorder(e, lane).reorder_storage(e, lane).vectorize(e);
            sum.update().reorder(of_pairs->sum, lane).vectorize(of_pairs->sum);
            of_pairs->pair_sum.bound(e, 0, 2).bound(r, 0, tuning.row_tile).update().reorder(mi, e, r);
            p.row_sum.compute_at(packed, t);
            // Both elements of the pairs of a vector are rounded at once.
            p.weight.bound(e, 0, 2).reorder_storage(e, k, r, c, t, h, b);
            along_keys(p.weight.update(0), p.weight_keys);
            p.weight.update(0).reorder(of_pairs->weight, p.weight_keys.key).vectorize(of_pairs->weight);
        } else {
            lanes_of_keys(p.row_sum, p.sum_keys, lanes);
            p.row_sum.update().atomic().vectorize(mi);
            p.weight.reorder_storage(k, r, c, t, h, b);
            along_keys(p.weight.update(0), p.weight_keys);
        }

        // Weighted values: the first of some channels streams a block of V in, the others find it in L1.
        const int tile_channels = lanes * tuning.channel_tile;
        p.mixed.compute_at(packed, t).reorder_storage(d, r, c, t, h, b).vectorize(d, lanes);
        if (any_dims)
            p.mixed.bound(d, 0, (value_dim + tile_channels - 1) / tile_channels * tile_channels);
        else
            p.mixed.align_bounds(d, lanes);
        for (std::size_t n = 0; n < p.mixed_keys.size(); n++) {
            Stage mixed = p.mixed.update(int(n));
            const bool in_sums = !any_dims && value.type() == p.logit.type();
            if (in_sums) mixed = sum_in_blocks(s, p.mixed, mixed, p.mixed_keys[n].block, tuning, lanes).update();
            mixed.split(p.mixed_keys[n].key, block, in_block, tuning.value_block / elements);
            if (any_dims) {
                schedule_mixed_of_any_size(s, p.mixed, mixed, p.mixed_keys[n], block, in_block, tuning, lanes);
                continue;
            }
            mixed.split(r, some_rows, row, tuning.value_rows == 0 ? tuning.row_tile : tuning.value_rows)
                .split(d, vectors, di, lanes, TailStrategy::RoundUp)
                .split(vectors, dO, vectors, tuning.channel_tile, TailStrategy::GuardWithIf);
            std::vector<VarOrRVar> loops = {di, vectors, row, in_block, some_rows, dO, block};
            if (!in_sums) loops.push_back(p.mixed_keys[n].block);  // else it is a loop of the sums' sums
            mixed.reorder(loops);
            fetch_ahead(mixed, value, block, tuning.prefetch_keys / tuning.value_block);
            if (pairs) mixed.reorder(of_pairs->mixed[n], di).atomic().vectorize(of_pairs->mixed[n]);
            mixed.vectorize(di).unroll(vectors).unroll(row);
        }
        if (pairs)
            // Neighbouring keys are interleaved in registers.
            pairs->packed_value.in(p.mixed)
                .compute_at(p.mixed, in_block)
                .store_in(MemoryType::Stack)
                .bound(pairs->e, 0, 2)
                .bound_extent(d, tile_channels)
                .bound_extent(k, 1)
                .reorder(pairs->e, d, k)
                .vectorize(d, 2 * lanes)
                .unroll(d)
                .unroll(pairs->e);
        for (Func f : {p.logit, p.row_max, p.row_sum, p.weight, p.mixed}) f.bound(r, 0, tuning.row_tile);
        // Of constant size: no allocation in a task that may be short.
        p.logit.bound(k, 0, tuning.chunk), p.weight.bound(k, 0, tuning.chunk / elements);
        // What is small and of constant size, which of any head size it is not: Halide does not see that chunks are one. The stack of
        // others is freed as if it were heap where a later request for memory fails (Halide 21).
        constexpr int small = 16 * 1024;
        if (!any_dims && tuning.chunk * tuning.row_tile * p.logit.type().bytes() <= small)
            for (Func f : {p.logit, p.weight}) f.store_in(MemoryType::Stack);
        stage++;
    }
}

}  // namespace attune
