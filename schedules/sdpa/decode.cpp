// SPDX-License-Identifier: MIT
// Split-KV (Flash-Decoding): one task is one KV block of one key head, so that a single long sequence uses every core. Rows are
// the queries of all heads that share the key head: K and V are read once, in memory order. Lanes are channels.
#include "lowering/instructions/bf16.h"
#include "lowering/require.h"
#include "schedules/sdpa/decode_parts.h"

namespace attune {
using namespace Halide;
using namespace decode_loops;

void schedule_split_merge(SdpaStages &s, Func out, int lanes) {
    const Var r = s.r, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    constexpr int rows_of_merge = 64;  // fewer rows are not worth waking other threads
    Var task("task"), merge("merge"), row("row");
    schedule_prepared(s.prepared, lanes);
    out.split(i, t, row, 1)
        .reorder(d, row, t, h, b)
        .fuse(t, h, task)
        .fuse(task, b, task)
        .split(task, merge, task, rows_of_merge, TailStrategy::GuardWithIf)
        .parallel(merge)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    for (Func f : {s.total_max, s.total_sum, s.block_scale, s.lse, s.normalised, s.total_pv}) {
        f.compute_at(out, task);
        for (const Var &v : {r, t, h, b}) f.bound_extent(v, 1);
    }
    s.normalised.reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_pv.reorder_storage(d, r, t, h, b).vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.total_pv.update().reorder(d, r, s.pv_block).vectorize(d, lanes, TailStrategy::GuardWithIf);
}

bool decode_takes_bf16_dots(const SdpaKernel &kernel, const Target &target) {
    return kernel.bf16_products && !kernel.int8_rows && kernel.head_dim != 0 && kernel.head_dim % 32 == 0 &&
           gains_by_pairs_of_bf16(target);
}

bool decode_takes_int8(const SdpaKernel &kernel) {
    return kernel.int8_rows && kernel.bf16_products && kernel.head_dim != 0 && kernel.head_dim % 32 == 0;
}

ScheduleHints hints_for_decode(const DecodeParameters &parameters, const SdpaKernel &kernel, const Target &target) {
    return {.rows_per_tile = parameters.row_tile,
            .ragged_dims = kernel.head_dim == 0,
            .pair_block = 1,
            .whole_blocks = true,
            // For few queries most subblocks are seen whole.
            .asks_finite_values = decode_takes_bf16_dots(kernel, target)};
}

int decode_channel_group(const Target &target, const Type &accumulator, int head_dim) {
    return head_dim == 0 ? target.natural_vector_size(accumulator) : 0;
}

namespace {

void require_decode(const DecodeParameters &parameters, const DecodeInputs &in, int lanes) {
    require(parameters.row_tile > 0, "tile_q must be given");
    require_multiple("kv_block", parameters.kv_block, "kv_subblock", parameters.kv_subblock);
    require_multiple("kv_subblock", parameters.kv_subblock, "key_tile", parameters.key_tile);
    if (in.row_shift.defined()) require_multiple("the keys of a run", keys_of_run, "key_tile", parameters.key_tile);
    require_multiple("kv_subblock", parameters.kv_subblock, "value_block", parameters.value_block);
    require_multiple("kv_subblock", parameters.kv_subblock, "the vector width", lanes);
    require_multiple("prefetch_keys", parameters.prefetch_keys, "key_tile", parameters.key_tile);
    require_multiple("prefetch_keys", parameters.prefetch_keys, "value_block", parameters.value_block);
}

// One parallel loop over KV blocks gives maximum, sum and weighted values, which are channels of one Func; the merge of KV
// blocks; and queries, in which channels are contiguous, as keys are in the scores and weights.
void schedule_packed(SdpaStages &s, Func out, const DecodeParameters &parameters, const Expr &value_dim, int lanes,
                     int product_rows) {
    const Var r = s.r, d = s.d;
    schedule_split_merge(s, out, lanes);
    s.block_packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, parameters.row_tile);
    s.query_t.compute_root().reorder(d, r, s.t, s.h, s.b).bound(r, 0, product_rows);
    s.query_t.vectorize(d, lanes, TailStrategy::GuardWithIf);
}

}  // namespace

Stage schedule_kv_block_tasks(const SdpaStages &s, int stage, const RVar &kv_block, int lanes) {
    const RVar block_task("block_task");
    Func packed = s.block_packed;
    Stage tasks = packed.update(stage);
    tasks.reorder(s.d, s.r, s.t, kv_block, s.h, s.b)
        .fuse(kv_block, s.h, block_task)
        .fuse(block_task, s.b, block_task)
        .parallel(block_task)
        .vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    return tasks;
}

namespace {

// Scores, tile of keys by tile of keys, and the steps after them.
void schedule_decode_scores(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    const KeyLoop &keys = c.p.score_keys;
    Func score = c.p.score;
    score.compute_at(c.level()).reorder_storage(s.k, s.r, s.c, s.t, s.h, s.b);
    score.update(0)
        .split(keys.key, ko, ki, c.parameters.key_tile)
        .reorder(ki, s.r, ko, keys.subblock)
        .allow_race_conditions()
        .vectorize(ki)
        .unroll(s.r);
    for (const ScoreUpdate &step : c.p.steps) c.along_keys(score.update(step.update), step.keys);
    // Tiles of keys.
    const LoweredLoop tiles{score, 1, keys.key.name() + "." + ko.name()};
    c.prefetch(c.in.key, {score.update(0), ko, c.parameters.prefetch_keys / c.parameters.key_tile}, tiles);
    c.lift_shifts(tiles);
}

// Random words, one call for four keys.
void schedule_decode_dropout(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k, four("four_of_keys"), in_four("in_four");
    Func dropped = c.p.dropped, random = c.p.random;
    if (!dropped.defined()) return;
    dropped.compute_at(c.level()).reorder_storage(k, r, s.c, s.t, s.h, s.b).bound(r, 0, c.parameters.row_tile);
    if (!random.defined()) {
        dropped.reorder(k, r).vectorize(k, c.lanes);
        return;
    }
    dropped.split(k, four, in_four, 4).reorder(in_four, four, r).unroll(in_four).vectorize(four, c.lanes);
    const Var words = random.args()[1];
    random.compute_at(c.level())
        .reorder_storage(words, r, s.c, s.t, s.h, s.b)
        .reorder(words, r)
        .vectorize(words, c.lanes)
        .bound(r, 0, c.parameters.row_tile);
}

// Products as lanes of partial sums over the channels, `lane_qk`, added up across lanes at the end by the loop `across` of the
// score: two vectors give one of sums of neighbours, until each sum is one lane. Returns the sums of a tile of keys.
Func schedule_lane_qk(const DecodeBlock &c, Func qk, Func lane_qk, const RVar &of_lane, const RVar &across) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k;
    Func sums = lane_qk.in(qk);
    sums.compute_at(c.p.score, ko)
        .reorder_storage(lane, k, r, s.c, s.t, s.h, s.b)
        .reorder(lane, r, k)
        .vectorize(lane)
        .unroll(r);
    lane_qk.reorder_storage(lane, k, r, s.c, s.t, s.h, s.b).reorder(lane, r, k).vectorize(lane).unroll(r);
    lane_qk.update().reorder(lane, r, k, of_lane).vectorize(lane).unroll(r);
    qk.compute_at(c.p.score, ko).reorder_storage(k, r, s.c, s.t, s.h, s.b).vectorize(k).vectorize(r);
    qk.update().reorder(across, k, r).atomic().vectorize(across).vectorize(k).vectorize(r);
    for (Func f : {qk, sums}) f.bound_extent(k, c.parameters.key_tile).bound(r, 0, c.product_rows).store_in(MemoryType::Stack);
    lane_qk.bound(r, 0, c.product_rows).store_in(MemoryType::Stack);
    return sums;
}

}  // namespace

Func schedule_qk_of_one_size(const DecodeBlock &c, Func qk) {
    Func lane_qk = qk.update().split(c.p.channel, co, ci, c.lanes).rfactor(ci, lane);
    Func sums = schedule_lane_qk(c, qk, lane_qk, co, ci);
    lane_qk.compute_at(sums, c.s.k).bound_extent(c.s.k, 1).update().unroll(co);
    return lane_qk;
}

namespace {

// Keys interleaved: a channel's sums of one key wait for each other.
void schedule_qk_of_any_size(const DecodeBlock &c) {
    const Var k = c.s.k;
    Func qk = c.p.qk, lane_qk = qk.update().rfactor(c.p.channel, lane);
    Func sums = schedule_lane_qk(c, qk, lane_qk, c.p.group, c.p.channel);
    lane_qk.compute_at(c.p.score, ko).bound_extent(k, c.parameters.key_tile).unroll(k).update().unroll(k);
    sums.unroll(k);
}

}  // namespace

Func reduced_in_lanes(const DecodeBlock &c, Func f, const KeyLoop &keys, int width) {
    Func lane_reduced = f.update().split(keys.key, mo, mi, width).rfactor(mi, lane);
    f.compute_at(c.level());
    lane_reduced.compute_at(f, c.s.r).vectorize(lane).update().vectorize(lane);
    return lane_reduced;
}

void schedule_decode_softmax(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    Func weight = c.p.weight;
    for (auto [f, keys] : {std::pair(c.p.row_max, c.p.max_keys), std::pair(c.p.row_sum, c.p.sum_keys)}) {
        reduced_in_lanes(c, f, keys, c.lanes);
        f.update().atomic().vectorize(mi);
    }
    weight.compute_at(c.level()).reorder_storage(s.k, s.r, s.c, s.t, s.h, s.b);
    c.along_keys(weight.update(0), c.p.weight_keys);
}

namespace {

void schedule_decode_softmax(const DecodeBlock &c, const SdpaBf16DotStages &dots, const SdpaBf16DotStages::Pairs &of_kv_block) {
    const SdpaStages &s = c.s;
    const Var e = dots.e, r = s.r;
    Func row_max = c.p.row_max, row_sum = c.p.row_sum, weight = c.p.weight, pair_sum = of_kv_block.pair_sum;
    reduced_in_lanes(c, row_max, c.p.max_keys, c.lanes);
    row_max.update().atomic().vectorize(mi);
    Func sum = reduced_in_lanes(c, pair_sum, c.p.sum_keys, c.lanes / 2);
    sum.bound_extent(e, 2).reorder(e, lane).reorder_storage(e, lane).vectorize(e);
    sum.update().reorder(of_kv_block.sum, lane).vectorize(of_kv_block.sum);
    pair_sum.bound(e, 0, 2).bound(r, 0, c.parameters.row_tile).update().reorder(mi, e, r);
    row_sum.compute_at(c.level());
    // Both elements of the pairs of a vector are rounded at once.
    weight.compute_at(c.level()).bound(e, 0, 2).reorder_storage(e, s.k, r, s.c, s.t, s.h, s.b);
    c.along_keys(weight.update(0), c.p.weight_keys);
    weight.update(0).reorder(of_kv_block.weight, c.p.weight_keys.key).vectorize(of_kv_block.weight);
}

}  // namespace

void bound_decode_block(const DecodeBlock &c, int elements) {
    for (Func f : {c.p.score, c.p.row_max, c.p.row_sum, c.p.weight, c.p.pv}) f.bound(c.s.r, 0, c.parameters.row_tile);
    Func score = c.p.score, weight = c.p.weight;
    score.bound(c.s.k, 0, c.parameters.kv_block), weight.bound(c.s.k, 0, c.parameters.kv_block / elements);
}

void keep_small_on_stack(const DecodeBlock &c) {
    constexpr int small = 16 * 1024;
    if (c.parameters.kv_block * c.parameters.row_tile * c.p.score.type().bytes() > small) return;
    for (Func f : {c.p.score, c.p.weight}) f.store_in(MemoryType::Stack);
}

DecodeBlock begin_kv_block(SdpaStages &s, int stage, const DecodeParameters &parameters, Passes &passes, const DecodeInputs &in,
                           int lanes) {
    const DecodeBlock c{s, stage == 0 ? s.full : s.partial, parameters, passes, in, lanes};
    schedule_decode_scores(c);
    schedule_decode_dropout(c);
    return c;
}

namespace {

// One head size: the sums are in registers.
void schedule_decode_of_one_size(SdpaStages &s, const DecodeParameters &parameters, Passes &passes, const DecodeInputs &in,
                                 int lanes) {
    const Var r = s.r, d = s.d;
    s.query_t.reorder_storage(d, r, s.t, s.h, s.b);
    for (int stage = 0; stage < 2; stage++) {
        // Unrolled, so that the selects between the three fold away.
        schedule_kv_block_tasks(s, stage, stage == 0 ? s.full_block : s.partial_block, lanes).unroll(d);
        const DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        schedule_qk_of_one_size(c, c.p.qk);
        schedule_decode_softmax(c);
        schedule_decode_values(c);
        bound_decode_block(c);
        keep_small_on_stack(c);
    }
}

void schedule_decode_of_any_size(SdpaStages &s, const DecodeParameters &parameters, Passes &passes, const DecodeInputs &in,
                                 int lanes) {
    require(parameters.value_rows == 0, "value_rows is for one head size, which must be given");
    require(parameters.prefetch_keys == 0, "prefetch_keys is for one head size, which must be given");
    require(!in.row_shift.defined() || parameters.value_block % keys_of_run == 0 || keys_of_run % parameters.value_block == 0,
            "value_block and the keys of a run must divide one another");
    s.query_t.reorder_storage(s.d, s.r, s.t, s.h, s.b);
    for (int stage = 0; stage < 2; stage++) {
        schedule_kv_block_tasks(s, stage, stage == 0 ? s.full_block : s.partial_block, lanes);
        const DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        schedule_qk_of_any_size(c);
        schedule_decode_softmax(c);
        schedule_decode_values_of_any_size(c);
        bound_decode_block(c);
    }
}

// bf16 dot products, for one head size.
void schedule_decode_bf16_dot(SdpaBf16DotStages &dots, const DecodeParameters &parameters, Passes &passes,
                              const DecodeInputs &in, int lanes) {
    SdpaStages &s = dots.s;
    const Var e = dots.e, r = s.r, d = s.d;
    s.query_t.bound(e, 0, 2).reorder_storage(e, d, r, s.t, s.h, s.b).reorder(e, d).vectorize(e);
    for (int stage = 0; stage < 2; stage++) {
        const SdpaBf16DotStages::Pairs &of_kv_block = stage == 0 ? dots.full : dots.partial;
        schedule_kv_block_tasks(s, stage, stage == 0 ? s.full_block : s.partial_block, lanes).unroll(d);
        const DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        schedule_qk_of_one_size(c, c.p.qk).update().reorder(of_kv_block.channel, lane).atomic().vectorize(of_kv_block.channel);
        schedule_decode_softmax(c, dots, of_kv_block);
        schedule_decode_values(c, dots, of_kv_block);
        bound_decode_block(c, 2);
        keep_small_on_stack(c);
    }
}

}  // namespace

void schedule_decode(SdpaStages &s, Func out, Passes &passes, const DecodeParameters &parameters, const Target &target,
                     const DecodeInputs &in, SdpaBf16DotStages *dots, SdpaInt8Stages *integers) {
    const int lanes = target.natural_vector_size(s.full.score.type());
    require_decode(parameters, in, lanes);
    const auto size = Internal::as_const_int(in.value_dim);
    if (size) require_multiple("the head size", static_cast<int>(*size), "the vector width", lanes);
    schedule_packed(s, out, parameters, in.value_dim, lanes, parameters.row_tile * (integers ? integers->digits.digits : 1));
    if (integers)
        schedule_decode_int8(*integers, parameters, passes, in, lanes);
    else if (dots)
        schedule_decode_bf16_dot(*dots, parameters, passes, in, lanes);
    else if (size)
        schedule_decode_of_one_size(s, parameters, passes, in, lanes);
    else
        schedule_decode_of_any_size(s, parameters, passes, in, lanes);
}

}  // namespace attune
