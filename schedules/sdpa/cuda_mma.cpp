// The warps of a block walk the keys together: chunk by chunk, keys and values are copied to shared memory, where every warp
// reads them for its own rows. Scores, weights and weighted values are fragments in registers, and no lane waits for another
// but where a chunk is staged.
#include "schedules/private_registers.h"
#include "schedules/require.h"
#include "schedules/sdpa/fragment_schedules.h"

namespace attune {
using namespace Halide;

namespace {

constexpr int words_together = 4;  // that a lane copies, 16 bytes

// How much of a Func is computed together: slots (0: those of a lane) or lanes, keys of a lane, groups of columns, groups of
// terms.
struct Extents {
    int slots = 0, lanes = 1, keys = 1, groups = 1, terms = 1;
};

struct InBlock {
    FragmentStages &stages;
    const FragmentShape &shape;

    // Constant extents, or what a lane holds would be no registers.
    Func bounded(Func f, const Extents &extents) const {
        const SdpaStages &s = stages.s;
        for (const Var &v : f.args()) {
            const std::string &name = v.name();
            int extent = 1;
            if (name == s.r.name()) extent = extents.slots ? extents.slots : shape.lane_rows;
            if (name == s.k.name()) extent = extents.keys;
            if (name == stages.e.name()) extent = 4;
            if (name == stages.l.name()) extent = extents.lanes;
            if (name == stages.p.name()) extent = shape.products();
            if (name == stages.n.name()) extent = extents.groups;
            if (name == stages.m.name()) extent = extents.terms;
            f.bound_extent(v, extent);
        }
        return f.store_in(MemoryType::Register);
    }
    // Within the loop of a lane; all loops unrolled, fragments as vectors.
    Func in_lane(Func f, const LoopLevel &at, const Extents &extents = {}) const {
        bounded(f, extents).compute_at(at);
        for (const Var &v : f.args()) {
            if (v.name() == stages.e.name())
                f.vectorize(v);
            else
                f.unroll(v);
        }
        return f;
    }
    // And a sum of products of matrices: one term after the other, for all groups of columns.
    void products(Func f, const RVar &term, const LoopLevel &at, int groups) const {
        in_lane(f, at, {.groups = groups})
            .update()
            .reorder(stages.e, stages.p, stages.n, term)
            .vectorize(stages.e)
            .unroll(stages.p)
            .unroll(stages.n)
            .unroll(term);
    }
    void reduction(Func f, const RVar &key, const LoopLevel &at) const {
        in_lane(f, at).update().reorder(stages.s.r, key).unroll(stages.s.r).unroll(key);
    }

    void partials(FragmentPartials &f, const LoopLevel &lane) const {
        const SdpaStages &s = stages.s;
        const int keys = shape.lane_keys();
        in_lane(f.key_words, {f.product, f.channel}, {.groups = shape.chunk / 16});
        products(f.product, f.channel, lane, shape.chunk / 8);
        in_lane(f.p.logit, lane, {.keys = keys});
        f.p.logit.update(0).reorder(s.r, f.p.logit_keys.key, f.p.logit_keys.block).unroll(s.r).unroll(f.p.logit_keys.key);
        for (const ScoreUpdate &step : f.p.steps)
            f.p.logit.update(step.update).reorder(s.r, step.keys.key, step.keys.block).unroll(s.r).unroll(step.keys.key);
        reduction(f.lane_max, f.max_key, lane);
        in_lane(f.row_max, lane);
        in_lane(f.value_words, {stages.running, f.running_keys}, {.groups = shape.channels / 16});
    }

    // Rarely computed, so it is short.
    void settling(const LoopLevel &lane) const {
        const SdpaStages &s = stages.s;
        SdpaPartials &p = stages.of_key;
        in_lane(stages.spoilt, lane);
        in_lane(stages.settled, lane);
        stages.settled.update().reorder(stages.stretch, s.r).unroll(s.r).never_partition_all();
        bounded(stages.again, {.slots = 1}).compute_at(stages.settled, stages.stretch).update().never_partition_all();
        const LoopLevel key(stages.again, stages.key_again);
        for (Func f : {p.score, p.logit}) bounded(f, {.slots = 1}).compute_at(key);
    }

    // Lanes side by side copy 16 bytes of a row each. Rows begin 4 words apart, modulo the 32 banks: eight that follow on each
    // other, which are read together as a matrix, meet in no bank.
    void staging(FragmentPartials &f, const LoopLevel &chunk) const {
        const SdpaStages &s = stages.s;
        const Var w = stages.w, g = stages.g;
        const int words = shape.channels / 2;
        for (const Var &v : f.rows.args())
            f.rows.bound_extent(v, v.name() == w.name()     ? words
                                   : v.name() == s.k.name() ? shape.chunk
                                   : v.name() == g.name()   ? 2
                                                            : 1);
        Var all("all"), together("together"), lane("lane"), warp("warp"), rest("rest");
        f.rows.compute_at(chunk)
            .store_in(MemoryType::GPUShared)
            .align_storage(w, words + words_together)
            .fuse(w, s.k, all)
            .split(all, all, together, words_together)
            .split(all, all, lane, lanes_of_warp)
            .split(all, rest, warp, shape.warps())
            .reorder(together, rest, g, lane, warp)
            .vectorize(together)
            .unroll(rest)
            .unroll(g)
            .gpu_threads(lane, warp);
    }
};

}  // namespace

void schedule_fragments(FragmentStages &stages, Func out, const FragmentShape &shape) {
    require_multiple("lane_rows", shape.lane_rows, "those of a product of matrices", 2);
    require_multiple("tile_q", shape.rows, "the rows of a warp", shape.warp_rows());
    require_multiple("channels", shape.channels, "the channels of two products of matrices", 16);
    require_multiple("chunk", shape.chunk, "the keys of a product of matrices", 16);
    SdpaStages &s = stages.s;
    const Var r = s.r;
    const InBlock in_block{stages, shape};

    // The pure stage defines nothing, but if it is not the device's the host is taken to write it.
    out.gpu_blocks(s.b).gpu_threads(s.d);
    RVar row("row"), lane("lane"), warp("warp");
    out.update()
        .allow_race_conditions()
        .split(stages.slot, lane, row, shape.lane_rows)
        .split(lane, warp, lane, lanes_of_warp)
        .reorder({stages.element, row, lane, warp, stages.tile, s.h, s.b})
        .gpu_blocks(stages.tile, s.h, s.b)
        .gpu_threads(lane, warp)
        .unroll(stages.element)
        .unroll(row)
        .never_partition_all();
    const LoopLevel block(out, stages.tile), in_out(out, lane);
    in_block.in_lane(stages.sum, in_out);
    in_block.in_lane(stages.lse, in_out);
    in_block.settling(in_out);

    // What a lane has before its first chunk.
    for (Func f : {s.row_begin, s.row_end}) {
        Var row("row"), lane("lane"), warp("warp");
        in_block.bounded(f, {.slots = shape.slots()})
            .compute_at(block)
            .split(r, lane, row, shape.lane_rows)
            .split(lane, warp, lane, lanes_of_warp)
            .unroll(row)
            .gpu_threads(lane, warp);
    }
    Var lane_of_warp("lane"), own_warp("warp");
    in_block.bounded(stages.running, {.lanes = shape.lanes()})
        .compute_at(block)
        .split(stages.l, own_warp, lane_of_warp, lanes_of_warp)
        .gpu_threads(lane_of_warp, own_warp);
    {
        Var warp("warp");
        in_block.bounded(stages.query_words, {.lanes = shape.lanes(), .terms = shape.channels / 16})
            .compute_at(block)
            .split(stages.l, warp, stages.l, lanes_of_warp)
            .reorder(stages.e, stages.p, stages.m, stages.l, warp)
            .unroll(stages.e)
            .unroll(stages.p)
            .unroll(stages.m)
            .gpu_threads(stages.l, warp);
    }
    int update = 0;
    for (FragmentPartials *f : {&stages.full, &stages.part}) {
        Var lane(update ? "lane_part" : "lane_full"), warp("warp");
        stages.running.update(update++)
            .split(stages.l, warp, lane, lanes_of_warp)
            .reorder(f->running_keys, lane, warp, f->running_chunk)
            .unroll(f->running_keys)
            .gpu_threads(lane, warp)
            .never_partition_all();
        in_block.partials(*f, {stages.running, lane});
        in_block.staging(*f, {stages.running, f->running_chunk});
    }
}

}  // namespace attune
