// Lanes of a warp hold the rows of a tile of queries and share the channels of a row, so a score costs a few shuffles, and
// nothing needs shared memory or a barrier: K and V come through L1, where the lanes of a row read 16 bytes each, side by side.
// Each lane uses what it loads for all of its rows; that number of rows decides whether loads or products are the limit.
#include "schedules/require.h"
#include "schedules/sdpa/lane_schedules.h"

namespace attune {
using namespace Halide;

namespace {

struct InLane {
    LaneStages &stages;
    const LanesTuning &tuning;
    int terms = tuning.exchange ? 1 : tuning.lanes.channel_lanes;  // lanes whose shares a lane computes

    // Constant extents, or what a lane holds would be no registers. `keys` and `lanes`: of how many.
    Func place(Func f, const LoopLevel &at, int keys = 1, int lanes = 1) const {
        const SdpaStages &s = stages.s;
        f.compute_at(at).store_in(MemoryType::Register);
        for (const Var &v : f.args()) {
            const std::string &name = v.name();
            int extent = 1;
            if (name == s.r.name()) extent = tuning.lanes.rows;
            if (name == s.k.name()) extent = keys;
            if (name == s.t.name()) extent = lanes;
            if (name == stages.j.name()) extent = tuning.lanes.lane_channels();
            f.bound_extent(v, extent);
            if (extent > 1 && name != stages.j.name()) f.unroll(v);
        }
        return f;
    }
    // What is read from memory, in the widest loads.
    void load(Func f) const {
        if (tuning.loaded > 1) f.vectorize(stages.j, tuning.loaded);
        f.unroll(stages.j);
    }

    // One key after the other: its channels are loaded once and used for all rows of the lane.
    void partials(LanePartials &l) const {
        const SdpaStages &s = stages.s;
        const Var r = s.r;
        SdpaPartials &p = l.p;
        const LoopLevel chunk(stages.running, l.running_chunk), key(p.logit, p.logit_keys.key);
        place(p.logit, chunk, tuning.chunk);
        p.logit.update(0).reorder(r, p.logit_keys.key, p.logit_keys.block).unroll(r).unroll(p.logit_keys.key);
        for (const ScoreUpdate &step : p.steps)
            p.logit.update(step.update).reorder(r, step.keys.key, step.keys.block).unroll(r).unroll(step.keys.key);
        place(l.part_score, key, 1, terms).update().reorder(r, s.t, l.channel).unroll(r).unroll(s.t).unroll(l.channel);
        load(place(l.key, key, 1, terms));
        place(p.row_max, chunk).update().reorder(r, p.max_keys.key, p.max_keys.block).unroll(r).unroll(p.max_keys.key);
        load(place(l.value, {stages.running, l.running_key}));
    }
};

}  // namespace

void schedule_lanes(LaneStages &stages, Func out, const LanesTuning &tuning) {
    const LaneShape &lanes = tuning.lanes;
    const int warp_rows = lanes.group_rows();
    require_multiple("channels", lanes.channels, "channel_lanes and what a lane loads together",
                     lanes.channel_lanes * tuning.loaded);
    require_multiple("tile_q", tuning.tile_q, "the rows of a warp", warp_rows);
    SdpaStages &s = stages.s;
    const Var r = s.r;

    // A block is some warps, a warp its lanes; a lane writes what it holds. Not partitioned, or the whole body would be there
    // twice.
    RVar block("block"), warp("warp"), row_lane("row_lane"), lane("lane");
    // The pure stage defines nothing, but if it is not the device's the host is taken to write it.
    out.gpu_blocks(s.b).gpu_threads(s.d);
    out.update()
        .allow_race_conditions()
        .split(stages.row_lane, block, warp, tuning.tile_q / lanes.rows)
        .split(warp, warp, row_lane, warp_rows / lanes.rows)
        .fuse(stages.share, row_lane, lane)
        .reorder({stages.element, stages.row, lane, warp, block, s.h, s.b})
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane, warp)
        .unroll(stages.element)
        .unroll(stages.row)
        .never_partition_all();

    const InLane in_lane{stages, tuning};
    const LoopLevel whole_call(out, lane);
    in_lane.place(s.row_begin, whole_call);
    in_lane.place(s.row_end, whole_call);
    in_lane.load(in_lane.place(stages.query, whole_call, 1, in_lane.terms));
    in_lane.place(stages.running, whole_call);
    int update = 0;
    for (LanePartials *l : {&stages.full, &stages.part}) {
        stages.running.update(update++)
            .reorder(r, l->running_key, l->running_chunk)
            .unroll(r)
            .unroll(l->running_key)
            .never_partition_all();
        in_lane.partials(*l);
    }
    in_lane.place(stages.lse, whole_call);
}

}  // namespace attune
