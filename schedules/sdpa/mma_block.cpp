// SPDX-License-Identifier: MIT
// Parts of the MMA schedules (mma_schedules.h).
#include "lowering/require.h"
#include "schedules/sdpa/mma_schedules.h"

namespace attune {
using namespace Halide;

void require_mma(const MmaShape &shape) {
    require_multiple("lane_rows", shape.lane_rows, "those of a product of matrices", 2);
    require_multiple("tile_q", shape.rows, "the rows of a warp", shape.warp_rows());
    require_multiple("channels", shape.channels, "the channels of two products of matrices", 16);
    require_multiple("kv_block", shape.kv_block, "the keys of a product of matrices", 16);
}

LoopLevel MmaBlock::distribute_to_lanes(Func out, const RVar &element, const RVar &slot, const RVar &tile) const {
    // The pure stage computes nothing, but without a GPU loop Halide assumes that the host writes the result.
    out.gpu_blocks(v.b).gpu_threads(out.args().front());
    RVar row("row"), lane("lane"), warp("warp");
    out.update()
        .allow_race_conditions()
        .split(slot, lane, row, shape.lane_rows)
        .split(lane, warp, lane, lanes_of_warp)
        .reorder({element, row, lane, warp, tile, v.h, v.b})
        .gpu_blocks(tile, v.h, v.b)
        .gpu_threads(lane, warp)
        .unroll(element)
        .unroll(row)
        .never_partition_all();
    return {out, lane};
}

Func MmaBlock::bounded(Func f, const MmaExtents &extents) const {
    for (const Var &arg : f.args()) {
        const std::string &name = arg.name();
        int extent = 1;
        if (name == v.r.name()) extent = extents.slots ? extents.slots : shape.lane_rows;
        if (name == v.k.name()) extent = extents.keys;
        if (name == v.u.name()) extent = extents.steps;
        if (name == v.e.name()) extent = 4;
        if (name == v.l.name()) extent = extents.lanes;
        if (name == v.p.name()) extent = shape.products();
        if (name == v.n.name()) extent = extents.groups;
        if (name == v.m.name()) extent = extents.terms;
        f.bound_extent(arg, extent);
    }
    return f.store_in(MemoryType::Register);
}

Func MmaBlock::in_lane(Func f, const LoopLevel &at, const MmaExtents &extents) const {
    bounded(f, extents).compute_at(at);
    for (const Var &arg : f.args()) {
        if (arg.name() == v.e.name())
            f.vectorize(arg);
        else
            f.unroll(arg);
    }
    return f;
}

void MmaBlock::of_lanes(Func f, const LoopLevel &block, const MmaExtents &of_lane) const {
    Var warp("warp");
    MmaExtents extents = of_lane;
    extents.lanes = shape.lanes();
    bounded(f, extents).compute_at(block).split(v.l, warp, v.l, lanes_of_warp);
    std::vector<VarOrRVar> loops;
    for (const Var &arg : f.args()) {
        bool in_fragment = false;
        for (const Var &of : {v.e, v.p, v.n, v.m, v.k, v.u}) in_fragment = in_fragment || arg.name() == of.name();
        if (in_fragment) f.unroll(arg), loops.emplace_back(arg);
    }
    loops.emplace_back(v.l), loops.emplace_back(warp);
    f.reorder(loops).gpu_threads(v.l, warp);
}

void MmaBlock::products(const MmaProduct &product, const LoopLevel &at, int groups) const {
    in_lane(product.sum, at, {.groups = groups})
        .update()
        .reorder(v.e, v.p, v.n, product.term)
        .vectorize(v.e)
        .unroll(v.p)
        .unroll(v.n)
        .unroll(product.term);
}

// Copy to shared memory: neighbouring lanes copy 16 bytes of a row each. Rows begin 4 words apart, modulo the 32 banks, so that
// eight successive rows, which are read together as a matrix, have no bank conflict.
void MmaBlock::staging(Func staged, int rows, const LoopLevel &at) const {
    constexpr int words_together = bytes_together / 4;
    const int words = shape.channel_words();
    require(words * rows % (words_together * shape.lanes()) == 0,
            std::to_string(rows) + " rows of " + std::to_string(shape.channels) +
                " channels are not copied in whole turns of " + std::to_string(shape.lanes()) + " lanes, 16 bytes each");
    Var all("all"), together("together"), lane("lane"), warp("warp"), rest("rest");
    std::vector<VarOrRVar> loops = {together, rest};
    for (const Var &arg : staged.args()) {
        const bool is_side = arg.name() == v.side.name();
        staged.bound_extent(arg, arg.name() == v.w.name() ? words : arg.name() == v.k.name() ? rows : is_side ? 2 : 1);
        if (is_side) staged.unroll(arg), loops.emplace_back(arg);
    }
    loops.emplace_back(lane), loops.emplace_back(warp);
    staged.compute_at(at)
        .store_in(MemoryType::GPUShared)
        .align_storage(v.w, words + words_together)
        .fuse(v.w, v.k, all)
        .split(all, all, together, words_together)
        .split(all, all, lane, lanes_of_warp)
        .split(all, rest, warp, shape.warps())
        .vectorize(together)
        .unroll(rest)
        .reorder(loops)
        .gpu_threads(lane, warp);
}

void MmaBlock::resident(ResidentWords &resident, const LoopLevel &block, const std::vector<MmaProduct> &products) const {
    if (!shape.stage_resident) return of_lanes(resident.words, block, {.terms = shape.channel_products()});
    staging(resident.rows, shape.rows, block);
    for (const MmaProduct &product : products)
        in_lane(resident.words.in(product.sum), {product.sum, product.term}, {.terms = shape.together()});
}

LoopLevel MmaBlock::accumulate(Func accumulator, int update, const std::vector<VarOrRVar> &of_lane,
                               const std::vector<VarOrRVar> &of_block) const {
    Var lane(update ? "lane_partial" : "lane_full"), warp("warp");
    std::vector<VarOrRVar> loops = of_lane;
    loops.emplace_back(lane), loops.emplace_back(warp);
    loops.insert(loops.end(), of_block.begin(), of_block.end());
    accumulator.update(update)
        .split(v.l, warp, lane, lanes_of_warp)
        .reorder(loops)
        .gpu_threads(lane, warp)
        .never_partition_all();
    return {accumulator, lane};
}

void MmaBlock::recomputing(const RecomputedTotals &s, const LoopLevel &lane, const std::vector<Func> &of_row) const {
    in_lane(s.nonfinite, lane);
    Func totals = in_lane(s.totals, lane), recomputed = s.recomputed;
    std::vector<VarOrRVar> loops = {s.stretch, v.r};
    if (s.has_heads) loops.insert(loops.begin() + 1, s.head);
    totals.update().reorder(loops).unroll(v.r).never_partition_all();
    bounded(recomputed, {.slots = 1}).compute_at(totals, s.stretch).update().never_partition_all();
    const LoopLevel row(recomputed, s.streamed);
    for (Func f : of_row) bounded(f, {.slots = 1}).compute_at(row);
}

}  // namespace attune
