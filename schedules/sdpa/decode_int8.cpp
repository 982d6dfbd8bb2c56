// SPDX-License-Identifier: MIT
// Split-KV for few rows over keys and values of int8, by products of integers.
#include "lowering/passes/int8_matrix_products.h"
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
    s.query_t.bound(e, 0, stages.digits.terms).reorder(e, s.d).vectorize(e);
    if (stages.digits.by_tiles())
        s.query_t.reorder_storage(e, s.r, s.d, s.t, s.h, s.b);
    else
        s.query_t.reorder_storage(e, s.d, s.r, s.t, s.h, s.b);
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

// Tiles of sums, each a vector in a register: of all rows, by the columns of a register tile.
void schedule_tiles(const DecodeBlock &c, const SdpaInt8Stages &stages, Func tiles, const Var &column, int columns) {
    const SdpaStages &s = c.s;
    const IntegerDigits &digits = stages.digits;
    const Var u = stages.u, g = stages.g;
    tiles.bound(u, 0, digits.columns).bound(g, 0, digits.digits).bound(s.r, 0, c.parameters.row_tile);
    tiles.bound_extent(column, columns / digits.columns);
    tiles.store_in(MemoryType::Stack).vectorize(u).vectorize(g).unroll(s.r).unroll(column);
    for (const Var &v : {s.c, s.t, s.h, s.b}) tiles.bound_extent(v, 1);
}
// Their update, of which `term` counts the terms of one instruction; `rest`: loops outside the tiles.
void schedule_tile_update(const SdpaInt8Stages &stages, Stage update, const RVar &term, const Var &column,
                          std::vector<VarOrRVar> rest) {
    const Var u = stages.u, g = stages.g, r = stages.s.r;
    std::vector<VarOrRVar> order{term, u, g, column, r};
    order.insert(order.end(), rest.begin(), rest.end());
    update.reorder(order).atomic().vectorize(term).vectorize(u).vectorize(g).unroll(column).unroll(r);
}

// A tile of keys, with all sums in registers, so that K is read once.
void schedule_qk_tiles(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k, pair("pair"), in_pair("in_pair");
    Func qk = c.p.qk, tiles = n.qk_tiles, packed_key = n.packed_key;
    qk.compute_at(c.p.score, ko).store_in(MemoryType::Stack).reorder_storage(k, r, s.c, s.t, s.h, s.b);
    qk.bound_extent(k, c.parameters.key_tile).bound(r, 0, c.parameters.row_tile);
    qk.split(k, pair, in_pair, stages.digits.columns).reorder(in_pair, pair, r);
    qk.vectorize(in_pair).vectorize(pair).unroll(r);
    schedule_tiles(c, stages, tiles, k, c.parameters.key_tile);
    schedule_tile_update(stages, tiles.compute_at(c.p.score, ko).update(), n.channel, k, {c.p.channel});
    tiles.update().unroll(c.p.channel);
    packed_key.compute_at(tiles, c.p.channel).store_in(MemoryType::Stack);
    packed_key.bound_extent(s.d, stages.digits.terms).bound_extent(k, c.parameters.key_tile).vectorize(s.d).unroll(k);
}

// Integers over the keys of a subblock, by rows of vectors of channels.
void schedule_pv_rows(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    const Var r = s.r, d = s.d;
    Func sums = n.pv;
    sums.reorder_storage(d, r).bound(r, 0, c.product_rows).bound_extent(d, c.tile_channels());
    for (const Var &v : {s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    sums.store_in(MemoryType::Stack).vectorize(d, c.lanes).unroll(d).unroll(r);
    sums.update()
        .split(d, vectors, di, c.lanes)
        .reorder(n.term, di, vectors, r, in_block, block)
        .vectorize(di)
        .unroll(vectors)
        .unroll(r)
        .atomic()
        .vectorize(n.term);
}
// By tiles of sums; the weights of a group of terms are put side by side.
void schedule_pv_tiles(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    Func tiles = n.pv_tiles, weight = n.weight;
    schedule_tiles(c, stages, tiles, s.d, c.tile_channels());
    schedule_tile_update(stages, tiles.update(), n.term, s.d, {in_block, block});
    Func weight_terms = weight.in(tiles);
    weight_terms.compute_at(tiles, in_block).store_in(MemoryType::Stack);
    weight_terms.bound_extent(s.k, stages.digits.terms).bound(s.r, 0, c.product_rows).vectorize(s.k).unroll(s.r);
}

// The values of a group of terms, interleaved. Of several digits they are rows in registers first: Halide 21 makes no
// interleaving store of loads with a promise within (clamped keys).
void schedule_packed_values(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n, Func sums) {
    const Var d = c.s.d, j = stages.j;
    const int tile_channels = c.tile_channels(), terms = stages.digits.terms;
    Func packed_value = n.packed_value, rows = n.value_rows;
    packed_value.in(sums)
        .compute_at(sums, in_block)
        .store_in(MemoryType::Stack)
        .bound(stages.e, 0, terms)
        .bound_extent(d, tile_channels)
        .bound_extent(c.s.k, 1)
        .reorder(stages.e, d, c.s.k)
        .vectorize(d, std::min(terms * c.lanes, tile_channels))
        .unroll(d)
        .unroll(stages.e);
    if (stages.digits.digits == 1) return;
    rows.compute_at(sums, in_block).store_in(MemoryType::Stack).bound_extent(d, tile_channels).bound_extent(j, terms);
    rows.vectorize(d, std::min(16, tile_channels)).unroll(d).unroll(j);
}

// Register tiles of rows by vectors of channels: integers over the keys of a subblock, and their numbers added to the weighted
// values of the KV block.
void schedule_values(const DecodeBlock &c, const SdpaInt8Stages &stages, const SdpaInt8Stages::Integers &n) {
    const SdpaStages &s = c.s;
    const DecodeParameters &parameters = c.parameters;
    const IntegerDigits &digits = stages.digits;
    const Var r = s.r, d = s.d, pair("pair"), in_pair("in_pair");
    Func pv = c.p.pv, sums = digits.by_tiles() ? n.pv_tiles : n.pv;
    pv.compute_at(c.level()).reorder_storage(d, r, s.c, s.t, s.h, s.b).vectorize(d, c.lanes);
    pv.align_bounds(d, c.lanes);
    Stage update = pv.update();
    update.split(d, vectors, di, c.lanes, TailStrategy::RoundUp)
        .split(vectors, dO, vectors, parameters.channel_tile, TailStrategy::GuardWithIf)
        .reorder(di, vectors, r, dO, n.subblock)
        .unroll(vectors)
        .unroll(r);
    sums.compute_at(pv, dO).bound_extent(stages.z, 1);
    sums.update().split(n.terms, block, in_block, parameters.value_block / digits.terms);
    if (digits.by_tiles()) {
        update.split(di, pair, in_pair, digits.columns).vectorize(in_pair).vectorize(pair);
        schedule_pv_tiles(c, stages, n);
    } else {
        update.vectorize(di);
        schedule_pv_rows(c, stages, n);
    }
    schedule_packed_values(c, stages, n, sums);
    const LoweredLoop blocks{sums, 1, n.terms.name() + "." + block.name()};
    c.prefetch(c.in.value, {sums.update(), block, parameters.prefetch_keys / parameters.value_block}, blocks);
    c.lift_shifts(blocks);
}

}  // namespace

IntegerDigits digits_of_target(const Target &target) {
    if (has_int8_matrix_products(target)) return eights_of_int8;
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
        if (stages.digits.by_tiles())
            schedule_qk_tiles(c, stages, n);
        else
            schedule_qk_of_one_size(c, n.qk).update().reorder(n.channel, lane).atomic().vectorize(n.channel);
        schedule_decode_softmax(c);
        schedule_weights(c, stages, n);
        schedule_values(c, stages, n);
        bound_decode_block(c);
        keep_small_on_stack(c);
    }
}

}  // namespace attune
