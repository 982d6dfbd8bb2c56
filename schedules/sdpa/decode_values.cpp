// SPDX-License-Identifier: MIT
// Weighted values of split-KV for few rows: register tiles of rows by vectors of channels.
#include "lowering/require.h"
#include "schedules/sdpa/decode_parts.h"

namespace attune {
using namespace Halide;
using namespace decode_loops;

namespace {

void schedule_kv_block_values(const DecodeBlock &c) {
    Func pv = c.p.pv;
    const SdpaStages &s = c.s;
    pv.compute_at(c.level()).reorder_storage(s.d, s.r, s.c, s.t, s.h, s.b).vectorize(s.d, c.lanes);
}

// Sums of blocks of keys, each added to the weighted values of the KV block at its end: one key after another they would be
// rounded as often as a KV block has keys. `pv` has the loop `blocks`; the loops within a block belong to the sums, which are
// returned.
Func sum_in_blocks(const DecodeBlock &c, Func pv_func, Stage pv, const RVar &blocks) {
    const SdpaStages &s = c.s;
    const Var r = s.r, d = s.d, of_block("of_block");
    Func sums = pv.rfactor(blocks, of_block);
    pv.reorder(d, r, blocks).vectorize(d, c.lanes).unroll(r);
    sums.compute_at(pv_func, blocks).store_in(MemoryType::Stack).reorder_storage(d, r).vectorize(d, c.lanes);
    sums.bound(r, 0, c.parameters.row_tile);
    for (const Var &v : {of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    return sums;
}

// Loops of a register tile of `value_rows` rows, `keys` keys of a block at a time, in update `update` of `sums`; around: loops
// around the loop over blocks. Returns the update.
Stage schedule_register_tile(const DecodeBlock &c, Func sums, int update, const RVar &key, int keys,
                             const std::vector<RVar> &around) {
    const DecodeParameters &parameters = c.parameters;
    if (c.in_pages()) require_multiple("the keys of a run", keys_of_run, "value_block", parameters.value_block);
    const Var some_rows("some_rows"), row("row");
    Stage pv = sums.update(update);
    pv.split(key, block, in_block, keys)
        .split(c.s.r, some_rows, row, parameters.value_rows == 0 ? parameters.row_tile : parameters.value_rows)
        .split(c.s.d, vectors, di, c.lanes, TailStrategy::RoundUp)
        .split(vectors, dO, vectors, parameters.channel_tile, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> loops = {di, vectors, row, in_block, some_rows, dO, block};
    loops.insert(loops.end(), around.begin(), around.end());
    pv.reorder(loops).vectorize(di).unroll(vectors).unroll(row);
    const LoweredLoop blocks{sums, update + 1, key.name() + "." + block.name()};
    c.prefetch(c.in.value, {pv, block, parameters.prefetch_keys / parameters.value_block}, blocks);
    return pv;
}

}  // namespace

void schedule_decode_values(const DecodeBlock &c) {
    schedule_kv_block_values(c);
    Func func = c.p.pv;
    func.align_bounds(c.s.d, c.lanes);
    const bool sums_blocks = c.in.value.type().bits() != 16;  // rounding of inputs of 16 bits weighs more
    int update = 0;
    for (const KeyLoop &keys : c.p.pv_keys) {
        if (sums_blocks) {
            const Func sums = sum_in_blocks(c, func, func.update(update), keys.subblock);
            schedule_register_tile(c, sums, 0, keys.key, c.parameters.value_block, {});
        } else {
            schedule_register_tile(c, func, update, keys.key, c.parameters.value_block, {keys.subblock});
        }
        update++;
    }
}

void schedule_decode_values(const DecodeBlock &c, const SdpaBf16DotStages &dots, const SdpaBf16DotStages::Pairs &of_kv_block) {
    constexpr int elements = 2;
    schedule_kv_block_values(c);
    Func func = c.p.pv;
    func.align_bounds(c.s.d, c.lanes);
    for (std::size_t n = 0; n < c.p.pv_keys.size(); n++) {
        const KeyLoop &keys = c.p.pv_keys[n];
        schedule_register_tile(c, func, int(n), keys.key, c.parameters.value_block / elements, {keys.subblock})
            .reorder(of_kv_block.pv[n], di)
            .atomic()
            .vectorize(of_kv_block.pv[n]);
    }
    // Neighbouring keys are interleaved in registers.
    Func packed_value = dots.packed_value;
    packed_value.in(func)
        .compute_at(func, in_block)
        .store_in(MemoryType::Stack)
        .bound(dots.e, 0, elements)
        .bound_extent(c.s.d, c.tile_channels())
        .bound_extent(c.s.k, 1)
        .reorder(dots.e, c.s.d, c.s.k)
        .vectorize(c.s.d, elements * c.lanes)
        .unroll(c.s.d)
        .unroll(dots.e);
}

// Sums of a block's keys are made in registers and then added to the sums in memory, whose places are known at run time only.
void schedule_decode_values_of_any_size(const DecodeBlock &c) {
    schedule_kv_block_values(c);
    const SdpaStages &s = c.s;
    const DecodeParameters &parameters = c.parameters;
    const int tile_channels = c.tile_channels(), lanes = c.lanes;
    const Var r = s.r, d = s.d, of_keys("of_keys"), of_block("of_block");
    Func func = c.p.pv;
    func.bound(d, 0, (c.in.value_dim + tile_channels - 1) / tile_channels * tile_channels);
    int update = 0;
    for (const KeyLoop &keys : c.p.pv_keys) {
        Stage pv = func.update(update++);
        pv.split(keys.key, block, in_block, parameters.value_block);
        Func sums = pv.rfactor({{keys.subblock, of_keys}, {block, of_block}});
        pv.split(d, vectors, di, lanes, TailStrategy::RoundUp)
            .split(vectors, dO, vectors, parameters.channel_tile, TailStrategy::RoundUp)
            .reorder(di, vectors, r, dO, block, keys.subblock)
            .vectorize(di)
            .unroll(vectors)
            .unroll(r);
        sums.compute_at(func, dO).store_in(MemoryType::Stack).reorder_storage(d, r);
        sums.bound(r, 0, parameters.row_tile).bound_extent(d, tile_channels);
        for (const Var &v : {of_keys, of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
        sums.vectorize(d, lanes).unroll(d).unroll(r);
        const bool by_runs = c.in_pages() && parameters.value_block > keys_of_run;
        if (by_runs) {
            const RVar run("run"), in_run("in_run");
            sums.update().split(in_block, run, in_run, keys_of_run).reorder(d, r, in_run, run);
            c.lift_shifts({sums, 1, in_block.name() + "." + run.name()});
        } else {
            sums.update().reorder(d, r, in_block);
            c.lift_shifts({func, update, block.name()});
        }
        sums.update().vectorize(d, lanes).unroll(d).unroll(r);
    }
}

}  // namespace attune
