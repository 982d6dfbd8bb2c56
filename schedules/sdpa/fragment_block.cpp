// SPDX-License-Identifier: MIT
// Parts of the schedules by fragments (fragment_schedules.h).
#include "lowering/require.h"
#include "schedules/sdpa/fragment_schedules.h"

namespace attune {
using namespace Halide;

void require_fragments(const FragmentShape &shape) {
    require_multiple("lane_rows", shape.lane_rows, "those of a product of matrices", 2);
    require_multiple("tile_q", shape.rows, "the rows of a warp", shape.warp_rows());
    require_multiple("channels", shape.channels, "the channels of two products of matrices", 16);
    require_multiple("chunk", shape.chunk, "the keys of a product of matrices", 16);
}

LoopLevel FragmentBlock::deal_to_lanes(Func out, const RVar &element, const RVar &slot, const RVar &tile) const {
    // The pure stage defines nothing, but if it is not the device's the host is taken to write it.
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

Func FragmentBlock::bounded(Func f, const FragmentExtents &extents) const {
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

Func FragmentBlock::in_lane(Func f, const LoopLevel &at, const FragmentExtents &extents) const {
    bounded(f, extents).compute_at(at);
    for (const Var &arg : f.args()) {
        if (arg.name() == v.e.name())
            f.vectorize(arg);
        else
            f.unroll(arg);
    }
    return f;
}

void FragmentBlock::of_lanes(Func f, const LoopLevel &block, const FragmentExtents &of_lane) const {
    Var warp("warp");
    FragmentExtents extents = of_lane;
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

void FragmentBlock::products(const FragmentProduct &product, const LoopLevel &at, int groups) const {
    in_lane(product.sum, at, {.groups = groups})
        .update()
        .reorder(v.e, v.p, v.n, product.term)
        .vectorize(v.e)
        .unroll(v.p)
        .unroll(v.n)
        .unroll(product.term);
}

// Lanes side by side copy 16 bytes of a row each. Rows begin 4 words apart, modulo the 32 banks: eight that follow on each
// other, which are read together as a matrix, meet in no bank.
void FragmentBlock::staging(Func staged, int rows, const LoopLevel &at) const {
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

void FragmentBlock::own(OwnWords &own, const LoopLevel &block, const std::vector<FragmentProduct> &products) const {
    if (!shape.stage_own) return of_lanes(own.words, block, {.terms = shape.channel_products()});
    staging(own.rows, shape.rows, block);
    for (const FragmentProduct &product : products)
        in_lane(own.words.in(product.sum), {product.sum, product.term}, {.terms = shape.together()});
}

LoopLevel FragmentBlock::take_up(Func running, int update, const std::vector<VarOrRVar> &of_lane,
                                 const std::vector<VarOrRVar> &of_block) const {
    Var lane(update ? "lane_part" : "lane_full"), warp("warp");
    std::vector<VarOrRVar> loops = of_lane;
    loops.emplace_back(lane), loops.emplace_back(warp);
    loops.insert(loops.end(), of_block.begin(), of_block.end());
    running.update(update).split(v.l, warp, lane, lanes_of_warp).reorder(loops).gpu_threads(lane, warp).never_partition_all();
    return {running, lane};
}

void FragmentBlock::settling(const SettledTotals &s, const LoopLevel &lane, const std::vector<Func> &of_row) const {
    in_lane(s.spoilt, lane);
    Func settled = in_lane(s.settled, lane), again = s.again;
    std::vector<VarOrRVar> loops = {s.stretch, v.r};
    if (s.has_heads) loops.insert(loops.begin() + 1, s.head);
    settled.update().reorder(loops).unroll(v.r).never_partition_all();
    bounded(again, {.slots = 1}).compute_at(settled, s.stretch).update().never_partition_all();
    const LoopLevel row(again, s.met);
    for (Func f : of_row) bounded(f, {.slots = 1}).compute_at(row);
}

}  // namespace attune
