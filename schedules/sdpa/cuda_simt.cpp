// SPDX-License-Identifier: MIT
// Lanes of a warp hold the rows of a tile of queries and share the channels of a row, so a score costs a few shuffles, and
// nothing needs shared memory or a barrier: K and V come through L1, where the lanes of a row read 16 bytes each, side by side.
// Each lane uses what it loads for all of its rows; that number of rows decides whether loads or products are the limit.
#include "lowering/require.h"
#include "schedules/sdpa/lane_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// One key after the other: its channels are loaded once and used for all rows of the lane.
void schedule_keys(LaneStages &stages, LanePartials &l, const LanesTuning &tuning) {
    const SdpaStages &s = stages.s;
    const Var r = s.r;
    const int terms = tuning.terms();
    SdpaPartials &p = l.p;
    const LoopLevel chunk(stages.running, l.running_chunk), key(p.logit, p.logit_keys.key);
    keep_in_lane(p.logit, chunk, tuning, tuning.chunk);
    p.logit.update(0).reorder(r, p.logit_keys.key, p.logit_keys.block).unroll(r).unroll(p.logit_keys.key);
    for (const ScoreUpdate &step : p.steps)
        p.logit.update(step.update).reorder(r, step.keys.key, step.keys.block).unroll(r).unroll(step.keys.key);
    keep_in_lane(l.part_score, key, tuning, 1, terms)
        .update()
        .reorder(r, s.t, l.channel)
        .unroll(r)
        .unroll(s.t)
        .unroll(l.channel);
    load_in_lane(keep_in_lane(l.key, key, tuning, 1, terms), tuning);
    keep_in_lane(p.row_max, chunk, tuning)
        .update()
        .reorder(r, p.max_keys.key, p.max_keys.block)
        .unroll(r)
        .unroll(p.max_keys.key);
    load_in_lane(keep_in_lane(l.value, {stages.running, l.running_key}, tuning), tuning);
}

// Returns the loop over blocks of rows, outermost of those that the result's update has but for the others of its arguments.
RVar schedule_walk(LaneStages &stages, Func result, const LanesTuning &tuning) {
    SdpaStages &s = stages.s;
    RVar block("block");
    const LoopLevel whole_call(
        result, deal_to_lanes(result, {stages.element, stages.row, stages.share, stages.row_lane}, tuning, block));
    keep_in_lane(s.row_begin, whole_call, tuning);
    keep_in_lane(s.row_end, whole_call, tuning);
    load_in_lane(keep_in_lane(stages.query, whole_call, tuning, 1, tuning.terms()), tuning);
    keep_in_lane(stages.running, whole_call, tuning);
    int update = 0;
    for (LanePartials *l : {&stages.full, &stages.part}) {
        stages.running.update(update++)
            .reorder(s.r, l->running_key, l->running_chunk)
            .unroll(s.r)
            .unroll(l->running_key)
            .never_partition_all();
        schedule_keys(stages, *l, tuning);
    }
    if (stages.lse.defined()) keep_in_lane(stages.lse, whole_call, tuning);
    return block;
}

}  // namespace

RVar deal_to_lanes(Func result, const LaneLoops &loops, const LanesTuning &tuning, const RVar &block) {
    const LaneShape &lanes = tuning.lanes;
    const int warp_rows = lanes.group_rows();
    require_multiple("channels", lanes.channels, "channel_lanes and what a lane loads together",
                     lanes.channel_lanes * tuning.loaded);
    require_multiple("tile_q", tuning.tile_q, "the rows of a warp", warp_rows);
    RVar warp("warp"), row_lane("row_lane"), lane("lane");
    // The pure stage defines nothing, but if it is not the device's the host is taken to write it. Not partitioned, or the
    // whole body would be there twice.
    result.gpu_blocks(result.args().back()).gpu_threads(result.args().front());
    result.update()
        .allow_race_conditions()
        .split(loops.row_lane, block, warp, tuning.tile_q / lanes.rows)
        .split(warp, warp, row_lane, warp_rows / lanes.rows)
        .fuse(loops.share, row_lane, lane)
        .reorder(loops.element, loops.row, lane, warp, block)
        .gpu_threads(lane, warp)
        .unroll(loops.element)
        .unroll(loops.row)
        .never_partition_all();
    return lane;
}

Func keep_in_lane(Func f, const LoopLevel &at, const LanesTuning &tuning, int met, int lanes) {
    f.compute_at(at).store_in(MemoryType::Register);
    for (const Var &v : f.args()) {
        const std::string &name = v.name();
        const int extent = name == "r"   ? tuning.lanes.rows
                           : name == "k" ? met
                           : name == "t" ? lanes
                           : name == "j" ? tuning.lanes.lane_channels()
                                         : 1;
        f.bound_extent(v, extent);
        if (extent > 1 && name != "j") f.unroll(v);
    }
    return f;
}

void load_in_lane(Func f, const LanesTuning &tuning) {
    const Var j("j");
    if (tuning.loaded > 1) f.vectorize(j, tuning.loaded);
    f.unroll(j);
}

void schedule_lanes(LaneStages &stages, Func out, const LanesTuning &tuning) {
    const SdpaStages &s = stages.s;
    const RVar block = schedule_walk(stages, out, tuning);
    out.update().reorder({block, s.h, s.b}).gpu_blocks(block, s.h, s.b);
}

void schedule_split_lanes(LaneStages &stages, Func out, Func state, const LanesTuning &tuning, int part) {
    require_multiple("part", part, "chunk", tuning.chunk);
    const SdpaStages &s = stages.s;
    RVar part_of_rows("part_of_rows");
    state.compute_root();
    const RVar block = schedule_walk(stages, state, tuning);
    state.update()
        .fuse(stages.state_part, block, part_of_rows)
        .reorder({part_of_rows, s.h, s.b})
        .gpu_blocks(part_of_rows, s.h, s.b);
    schedule_merge_of_parts(s, stages.merged, out);
}

// A lane walks the parts of one channel, and asks for what it reads of some of them together. What is read of a part without
// channels the lanes of a warp read together.
void schedule_merge_of_parts(const SdpaStages &s, const SdpaStages &merged, Func out) {
    Var some_channels("some_channels"), lane("lane"), row("row");
    constexpr int lanes = 32;
    out.split(s.d, some_channels, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(some_channels, s.i, row)
        .reorder(lane, row, s.h, s.b)
        .gpu_blocks(row, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    for (Func f : {merged.total_max, merged.total_sum, merged.total_mixed}) {
        f.compute_at(out, lane).store_in(MemoryType::Register);
        for (const Var &v : f.args()) f.bound_extent(v, 1);
        RVar some("some"), part("part");
        f.update().split(f.rvars()[0], some, part, parts_together).unroll(part).never_partition_all();
    }
}

}  // namespace attune
