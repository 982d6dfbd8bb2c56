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

// Keys interleaved: a channel's sums of one key wait for each other.
void schedule_qk_of_any_size(const DecodeBlock &c) {
    const Var k = c.s.k;
    Func qk = c.p.qk, lane_qk = qk.update().rfactor(c.p.channel, lane);
    Func sums = schedule_lane_qk(c, qk, lane_qk, c.p.group, c.p.channel);
    lane_qk.compute_at(c.p.score, ko).bound_extent(k, c.parameters.key_tile).unroll(k).update().unroll(k);
    sums.unroll(k);
}

void schedule_decode_softmax(const DecodeBlock &c, const SdpaBf16DotStages &dots, const SdpaBf16DotStages::Pairs &of_kv_block) {
    const SdpaStages &s = c.s;
    const Var e = dots.e, r = s.r;
    Func row_max = c.p.row_max, row_sum = c.p.row_sum, weight = c.p.weight, pair_sum = of_kv_block.pair_sum;
    reduced_in_lanes(row_max, c.p.max_keys.key, r, c.lanes);
    row_max.compute_at(c.level()).update().atomic().vectorize(mi);
    Func sum = reduced_in_lanes(pair_sum, c.p.sum_keys.key, r, c.lanes / 2);
    pair_sum.compute_at(c.level());
    sum.bound_extent(e, 2).reorder(e, lane).reorder_storage(e, lane).vectorize(e);
    sum.update().reorder(of_kv_block.sum, lane).vectorize(of_kv_block.sum);
    pair_sum.bound(e, 0, 2).bound(r, 0, c.parameters.row_tile).update().reorder(mi, e, r);
    row_sum.compute_at(c.level());
    // Both elements of the pairs of a vector are rounded at once.
    weight.compute_at(c.level()).bound(e, 0, 2).reorder_storage(e, s.k, r, s.c, s.t, s.h, s.b);
    c.along_keys(weight.update(0), c.p.weight_keys);
    weight.update(0).reorder(of_kv_block.weight, c.p.weight_keys.key).vectorize(of_kv_block.weight);
}

// One head size: the sums are in registers.
void schedule_decode_of_one_size(SdpaStages &s, const DecodeParameters &parameters, Passes &passes, const DecodeInputs &in,
                                 int lanes) {
    const Var r = s.r, d = s.d;
    s.query_t.reorder_storage(d, r, s.t, s.h, s.b);
    for (int stage = 0; stage < 2; stage++) {
        // Unrolled, so that the selects between the three fold away.
        schedule_kv_block_tasks(s, stage, in, lanes).unroll(d);
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
    // Whole vectors of channels: the products read the last one whole, too, and then select.
    s.query_t.reorder_storage(s.d, s.r, s.t, s.h, s.b).align_bounds(s.d, lanes);
    for (int stage = 0; stage < 2; stage++) {
        schedule_kv_block_tasks(s, stage, in, lanes);
        const DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        schedule_qk_of_any_size(c);
        schedule_decode_softmax(c);
        schedule_decode_values_of_any_size(c);
        bound_decode_block(c);
    }
}

}  // namespace

void schedule_decode(SdpaStages &s, Func out, Passes &passes, const DecodeParameters &parameters, const Target &target,
                     const DecodeInputs &in) {
    const int lanes = begin_decode(s, out, parameters, target, in, parameters.row_tile);
    if (Internal::as_const_int(in.value_dim))
        schedule_decode_of_one_size(s, parameters, passes, in, lanes);
    else
        schedule_decode_of_any_size(s, parameters, passes, in, lanes);
}

void schedule_decode(SdpaBf16DotStages &dots, Func out, Passes &passes, const DecodeParameters &parameters,
                     const Target &target, const DecodeInputs &in) {
    SdpaStages &s = dots.s;
    const int lanes = begin_decode(s, out, parameters, target, in, parameters.row_tile);
    const Var e = dots.e, r = s.r, d = s.d;
    s.query_t.bound(e, 0, 2).reorder_storage(e, d, r, s.t, s.h, s.b).reorder(e, d).vectorize(e);
    for (int stage = 0; stage < 2; stage++) {
        const SdpaBf16DotStages::Pairs &of_kv_block = stage == 0 ? dots.full : dots.partial;
        schedule_kv_block_tasks(s, stage, in, lanes).unroll(d);
        const DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        schedule_qk_of_one_size(c, c.p.qk).update().reorder(of_kv_block.channel, lane).atomic().vectorize(of_kv_block.channel);
        schedule_decode_softmax(c, dots, of_kv_block);
        schedule_decode_values(c, dots, of_kv_block);
        bound_decode_block(c, 2);
        keep_small_on_stack(c);
    }
}

}  // namespace attune
