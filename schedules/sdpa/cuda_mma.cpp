// The warps of a block walk the keys together: chunk by chunk, keys and values are copied to shared memory, where every warp
// reads them for its own 16 rows. Scores, weights and weighted values are fragments in registers, and no lane waits for another
// but where a chunk is staged.
#include "schedules/private_registers.h"
#include "schedules/require.h"
#include "schedules/sdpa/fragment_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// Words that a lane reads or copies together, 16 bytes; and elements.
constexpr int words_together = 4, elements_together = 8;

// How much of a Func is computed together: slots or lanes, keys of a lane, groups of columns, groups of terms.
struct Extents {
    int slots = 2, lanes = 1, keys = 1, groups = 1, terms = 1;
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
            if (name == s.r.name()) extent = extents.slots;
            if (name == s.k.name()) extent = extents.keys;
            if (name == stages.e.name()) extent = 4;
            if (name == stages.l.name()) extent = extents.lanes;
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
            .reorder(stages.e, stages.n, term)
            .vectorize(stages.e)
            .unroll(stages.n)
            .unroll(term);
    }
    void reduction(Func f, const RVar &key, const LoopLevel &at) const {
        in_lane(f, at).update().reorder(stages.s.r, key).unroll(stages.s.r).unroll(key);
    }

    void partials(FragmentPartials &f, const LoopLevel &lane) const {
        const SdpaStages &s = stages.s;
        const int keys = shape.lane_keys();
        in_lane(f.key_words, lane, {.groups = shape.chunk / 8, .terms = shape.channels / 32});
        products(f.product, f.channel, lane, shape.chunk / 8);
        in_lane(f.p.logit, lane, {.keys = keys});
        f.p.logit.update(0).reorder(s.r, f.p.logit_keys.key, f.p.logit_keys.block).unroll(s.r).unroll(f.p.logit_keys.key);
        for (const ScoreUpdate &step : f.p.steps)
            f.p.logit.update(step.update).reorder(s.r, step.keys.key, step.keys.block).unroll(s.r).unroll(step.keys.key);
        reduction(f.lane_max, f.max_key, lane);
        in_lane(f.row_max, lane);
        in_lane(f.weight, lane, {.keys = keys});
        reduction(f.lane_sum, f.sum_key, lane);
        in_lane(f.weight_words, lane, {.terms = shape.chunk / 16});
        in_lane(f.value_words, lane, {.groups = shape.channels / 8, .terms = shape.chunk / 32});
        products(f.mixed, f.key, lane, shape.channels / 8);
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

    // Rows of shared memory begin 16 words apart, modulo the 32 banks: reads of 16 bytes from two rows meet in no bank.
    void staged(Func f, const Var &row, int words, int rows, const LoopLevel &chunk) const {
        const Var w = stages.w;
        f.compute_at(chunk)
            .store_in(MemoryType::GPUShared)
            .bound_extent(w, words)
            .bound_extent(row, rows)
            .align_storage(w, words % 32 == 0 ? words + 16 : words);
        for (const Var &v : f.args())
            if (v.name() != w.name() && v.name() != row.name()) f.bound_extent(v, 1);
    }
    void staging(FragmentPartials &f, const LoopLevel &chunk) const {
        const SdpaStages &s = stages.s;
        const Var w = stages.w;
        Var all("all"), together("together"), lane("lane"), warp("warp"), rest("rest");
        // Of keys, 16 bytes of a row.
        staged(f.key_pairs, s.k, shape.channels / 2, shape.chunk, chunk);
        f.key_pairs.fuse(w, s.k, all)
            .split(all, all, together, words_together)
            .split(all, all, lane, lanes_of_warp)
            .split(all, rest, warp, shape.warps())
            .reorder(together, rest, lane, warp)
            .vectorize(together)
            .unroll(rest)
            .gpu_threads(lane, warp);
        // Of values, 16 bytes of two rows, transposed: lanes that write side by side have different words of one row.
        staged(f.value_pairs, s.d, shape.chunk / 2, shape.channels, chunk);
        f.value_pairs.split(s.d, s.d, together, elements_together)
            .reorder(together, w, s.d)
            .fuse(w, s.d, all)
            .split(all, all, lane, lanes_of_warp)
            .split(all, rest, warp, shape.warps())
            .reorder(together, rest, lane, warp)
            .vectorize(together)
            .unroll(rest)
            .gpu_threads(lane, warp);
    }
};

}  // namespace

void schedule_fragments(FragmentStages &stages, Func out, const FragmentShape &shape) {
    require_multiple("tile_q", shape.rows, "the rows of a warp", rows_of_warp);
    require_multiple("channels", shape.channels, "the channels of a fragment", 32);
    require_multiple("chunk", shape.chunk, "the keys of a fragment", 32);
    SdpaStages &s = stages.s;
    const Var r = s.r;
    const InBlock in_block{stages, shape};

    // The pure stage defines nothing, but if it is not the device's the host is taken to write it.
    out.gpu_blocks(s.b).gpu_threads(s.d);
    RVar row("row"), lane("lane"), warp("warp");
    out.update()
        .allow_race_conditions()
        .split(stages.slot, lane, row, 2)
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
    for (Func f : {s.row_begin, s.row_end, stages.running}) {
        Var row("row"), lane("lane"), warp("warp");
        in_block.bounded(f, {.slots = shape.slots()})
            .compute_at(block)
            .split(r, lane, row, 2)
            .split(lane, warp, lane, lanes_of_warp)
            .unroll(row)
            .gpu_threads(lane, warp);
    }
    {
        Var warp("warp");
        in_block.bounded(stages.query_words, {.lanes = shape.lanes(), .terms = shape.channels / 16})
            .compute_at(block)
            .split(stages.l, warp, stages.l, lanes_of_warp)
            .reorder(stages.e, stages.m, stages.l, warp)
            .unroll(stages.e)
            .unroll(stages.m)
            .gpu_threads(stages.l, warp);
    }
    int update = 0;
    for (FragmentPartials *f : {&stages.full, &stages.part}) {
        Var row("row"), lane(update ? "lane_part" : "lane_full"), warp("warp");
        stages.running.update(update++)
            .split(r, lane, row, 2)
            .split(lane, warp, lane, lanes_of_warp)
            .reorder(row, lane, warp, f->running_chunk)
            .unroll(row)
            .gpu_threads(lane, warp)
            .never_partition_all();
        in_block.partials(*f, {stages.running, lane});
        in_block.staging(*f, {stages.running, f->running_chunk});
    }
}

}  // namespace attune
