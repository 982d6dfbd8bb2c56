// SPDX-License-Identifier: MIT
// Split-KV for few rows over keys and values of int8, by products of integers.
#include "lowering/require.h"
#include "schedules/sdpa/decode_parts.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace decode_loops;

namespace {

void schedule_queries(SdpaInt8Stages &stages, int lanes) {
    SdpaStages &s = stages.s;
    const Var e = stages.e;
    s.query_t.bound(e, 0, stages.digits.terms).reorder_storage(e, s.d, s.r, s.t, s.h, s.b).reorder(e, s.d).vectorize(e);
    Func magnitude = stages.query_magnitude;
    reduced_in_lanes(magnitude, stages.query_channel, s.r, lanes);
    magnitude.compute_root().update().atomic().vectorize(mi);
}

// Scales are gathered once for all rows, beside the products that use them: gathered for a whole KV block, they would wait for
// memory all at once.
void schedule_scales(const DecodeBlock &c, const SdpaInt8Stages::Integers &n) {
    Func key_scale = n.key_scale, value_scale = n.value_scale;
    const Var k = c.s.k;
    key_scale.compute_at(c.p.score, ko).bound_extent(k, c.parameters.key_tile).vectorize(k).store_in(MemoryType::Stack);
    value_scale.compute_at(c.p.pv, n.subblock)
        .bound_extent(k, c.parameters.kv_subblock)
        .vectorize(k, c.lanes)
        .store_in(MemoryType::Stack);
}

// The integer weights of a subblock.
void schedule_weights(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k, z = stages.z;
    const LoopLevel subblock(c.p.pv, n.subblock);
    Func magnitude = n.weight_magnitude, weight = n.weight;
    reduced_in_lanes(magnitude, n.key_of_magnitude, r, c.lanes);
    magnitude.compute_at(subblock).bound(r, 0, c.parameters.row_tile).bound_extent(z, 1).store_in(MemoryType::Stack);
    magnitude.update().atomic().vectorize(mi);
    weight.compute_at(subblock)
        .bound(r, 0, c.product_rows)
        .bound(k, 0, c.parameters.kv_subblock)
        .bound_extent(z, 1)
        .reorder_storage(k, r, z, s.c, s.t, s.h, s.b)
        .vectorize(k, c.lanes)
        .store_in(MemoryType::Stack);
}

// Register tiles of rows by vectors of channels: integers over the keys of a subblock, and their numbers added to the weighted
// values of the KV block.
void schedule_values(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    const DecodeParameters &parameters = c.parameters;
    const Var r = s.r, d = s.d;
    const int tile_channels = c.tile_channels(), terms = stages.digits.terms;
    Func pv = c.p.pv, sums = n.pv, packed_value = n.packed_value;
    pv.compute_at(c.level()).reorder_storage(d, r, s.c, s.t, s.h, s.b).vectorize(d, c.lanes);
    pv.align_bounds(d, c.lanes);
    pv.update()
        .split(d, vectors, di, c.lanes, TailStrategy::RoundUp)
        .split(vectors, dO, vectors, parameters.channel_tile, TailStrategy::GuardWithIf)
        .reorder(di, vectors, r, dO, n.subblock)
        .vectorize(di)
        .unroll(vectors)
        .unroll(r);
    sums.compute_at(pv, dO).store_in(MemoryType::Stack).reorder_storage(d, r);
    sums.bound(r, 0, c.product_rows).bound_extent(d, tile_channels);
    for (const Var &v : {stages.z, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    sums.vectorize(d, c.lanes).unroll(d).unroll(r);
    sums.update()
        .split(n.terms, block, in_block, parameters.value_block / terms)
        .split(d, vectors, di, c.lanes)
        .reorder(n.term, di, vectors, r, in_block, block)
        .vectorize(di)
        .unroll(vectors)
        .unroll(r)
        .atomic()
        .vectorize(n.term);
    packed_value.in(sums)
        .compute_at(sums, in_block)
        .store_in(MemoryType::Stack)
        .bound(stages.e, 0, terms)
        .bound_extent(d, tile_channels)
        .bound_extent(s.k, 1)
        .reorder(stages.e, d, s.k)
        .vectorize(d, std::min(terms * c.lanes, tile_channels))
        .unroll(d)
        .unroll(stages.e);
    const LoweredLoop blocks{sums, 1, n.terms.name() + "." + block.name()};
    c.prefetch(c.in.value, {sums.update(), block, parameters.prefetch_keys / parameters.value_block}, blocks);
    c.lift_shifts(blocks);
}

}  // namespace

IntegerDigits digits_of_target(const Target &target) {
    return target.has_feature(Target::ARMDotProd) ? fours_of_int8 : pairs_of_int16;
}

void schedule_decode(SdpaInt8Stages &stages, Func out, Passes &passes, const DecodeParameters &parameters, const Target &target,
                     const DecodeInputs &in) {
    SdpaStages &s = stages.s;
    require(parameters.value_rows == 0, "value_rows is not for rows of int8");
    require_multiple("value_block", parameters.value_block, "the terms of a sum", stages.digits.terms);
    require_multiple("the keys of a run", keys_of_run, "value_block", parameters.value_block);
    const int product_rows = parameters.row_tile * stages.digits.digits,
              lanes = begin_decode(s, out, parameters, target, in, product_rows);
    schedule_queries(stages, lanes);
    for (int stage = 0; stage < 2; stage++) {
        const SdpaInt8Stages::Integers &n = stage == 0 ? stages.full : stages.partial;
        schedule_kv_block_tasks(s, stage, in, lanes).unroll(s.d);
        DecodeBlock c = begin_kv_block(s, stage, parameters, passes, in, lanes);
        c.product_rows = product_rows;
        schedule_scales(c, n);
        schedule_qk_of_one_size(c, n.qk).update().reorder(n.channel, lane).atomic().vectorize(n.channel);
        schedule_decode_softmax(c);
        schedule_weights(c, stages, n);
        schedule_values(c, stages, n);
        bound_decode_block(c);
        keep_small_on_stack(c);
    }
}

}  // namespace attune
