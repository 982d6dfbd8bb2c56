// SPDX-License-Identifier: MIT
// Weighted values of split-KV for few rows: register tiles of rows by vectors of channels.
#include "schedules/sdpa/decode_parts.h"

namespace attune {
using namespace Halide;
using namespace decode_loops;

namespace {

void schedule_chunk_values(const DecodeChunk &c) {
    Func mixed = c.p.mixed;
    const SdpaStages &s = c.s;
    mixed.compute_at(c.level()).reorder_storage(s.d, s.r, s.c, s.t, s.h, s.b).vectorize(s.d, c.lanes);
}

// Sums of blocks of keys, each of them added to the weighted values of the chunk at its end: one key after another they would
// round off as often as a chunk has keys. `mixed` has the loop blocks over these; the loops in them are left to the sums, which
// are returned.
Func sum_in_blocks(const DecodeChunk &c, Func mixed_func, Stage mixed, const RVar &blocks) {
    const SdpaStages &s = c.s;
    const Var r = s.r, d = s.d, of_block("of_block");
    Func sums = mixed.rfactor(blocks, of_block);
    mixed.reorder(d, r, blocks).vectorize(d, c.lanes).unroll(r);
    sums.compute_at(mixed_func, blocks).store_in(MemoryType::Stack).reorder_storage(d, r).vectorize(d, c.lanes);
    sums.bound(r, 0, c.tuning.row_tile);
    for (const Var &v : {of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
    return sums;
}

// Loops of a register tile of some rows, so many keys of a block at a time; around: loops around those over blocks.
void schedule_register_tile(const DecodeChunk &c, Stage mixed, const RVar &key, int keys, const std::vector<RVar> &around,
                            const ImageParam &value) {
    const DecodeTuning &tuning = c.tuning;
    const Var some_rows("some_rows"), row("row");
    mixed.split(key, block, in_block, keys)
        .split(c.s.r, some_rows, row, tuning.value_rows == 0 ? tuning.row_tile : tuning.value_rows)
        .split(c.s.d, vectors, di, c.lanes, TailStrategy::RoundUp)
        .split(vectors, dO, vectors, tuning.channel_tile, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> loops = {di, vectors, row, in_block, some_rows, dO, block};
    loops.insert(loops.end(), around.begin(), around.end());
    mixed.reorder(loops).vectorize(di).unroll(vectors).unroll(row);
    c.passes.prefetches.push_back({value, PrefetchRegion{mixed, block, tuning.prefetch_keys / tuning.value_block}});
}

}  // namespace

void schedule_decode_values(const DecodeChunk &c, const ImageParam &value) {
    schedule_chunk_values(c);
    Func func = c.p.mixed;
    func.align_bounds(c.s.d, c.lanes);
    const bool sums_blocks = value.type() == c.p.logit.type();
    int update = 0;
    for (const KeyLoop &keys : c.p.mixed_keys) {
        Stage mixed = func.update(update++);
        if (sums_blocks)
            schedule_register_tile(c, sum_in_blocks(c, func, mixed, keys.block).update(), keys.key, c.tuning.value_block, {},
                                   value);
        else
            schedule_register_tile(c, mixed, keys.key, c.tuning.value_block, {keys.block}, value);
    }
}

void schedule_decode_values(const DecodeChunk &c, const ImageParam &value, const PairStages &pairs,
                            const PairStages::Pairs &of_chunk) {
    constexpr int elements = 2;
    schedule_chunk_values(c);
    Func func = c.p.mixed;
    func.align_bounds(c.s.d, c.lanes);
    for (std::size_t n = 0; n < c.p.mixed_keys.size(); n++) {
        Stage mixed = func.update(int(n));
        const KeyLoop &keys = c.p.mixed_keys[n];
        schedule_register_tile(c, mixed, keys.key, c.tuning.value_block / elements, {keys.block}, value);
        mixed.reorder(of_chunk.mixed[n], di).atomic().vectorize(of_chunk.mixed[n]);
    }
    // Neighbouring keys are interleaved in registers.
    Func packed_value = pairs.packed_value;
    packed_value.in(func)
        .compute_at(func, in_block)
        .store_in(MemoryType::Stack)
        .bound(pairs.e, 0, elements)
        .bound_extent(c.s.d, c.tile_channels())
        .bound_extent(c.s.k, 1)
        .reorder(pairs.e, c.s.d, c.s.k)
        .vectorize(c.s.d, elements * c.lanes)
        .unroll(c.s.d)
        .unroll(pairs.e);
}

// Sums of a block's keys are made in registers, and then added to those in memory, whose places are known at run time only.
void schedule_decode_values_of_any_size(const DecodeChunk &c, const Expr &value_dim) {
    schedule_chunk_values(c);
    const SdpaStages &s = c.s;
    const DecodeTuning &tuning = c.tuning;
    const int tile_channels = c.tile_channels(), lanes = c.lanes;
    const Var r = s.r, d = s.d, of_keys("of_keys"), of_block("of_block");
    Func func = c.p.mixed;
    func.bound(d, 0, (value_dim + tile_channels - 1) / tile_channels * tile_channels);
    int update = 0;
    for (const KeyLoop &keys : c.p.mixed_keys) {
        Stage mixed = func.update(update++);
        mixed.split(keys.key, block, in_block, tuning.value_block);
        Func sums = mixed.rfactor({{keys.block, of_keys}, {block, of_block}});
        mixed.split(d, vectors, di, lanes, TailStrategy::RoundUp)
            .split(vectors, dO, vectors, tuning.channel_tile, TailStrategy::RoundUp)
            .reorder(di, vectors, r, dO, block, keys.block)
            .vectorize(di)
            .unroll(vectors)
            .unroll(r);
        sums.compute_at(func, dO).store_in(MemoryType::Stack).reorder_storage(d, r);
        sums.bound(r, 0, tuning.row_tile).bound_extent(d, tile_channels);
        for (const Var &v : {of_keys, of_block, s.c, s.t, s.h, s.b}) sums.bound_extent(v, 1);
        sums.vectorize(d, lanes).unroll(d).unroll(r);
        sums.update().reorder(d, r, in_block).vectorize(d, lanes).unroll(d).unroll(r);
    }
}

}  // namespace attune
