// SPDX-License-Identifier: MIT
// SIMT schedule. Lanes of a warp hold the rows of a tile of queries and share the channels of a row, so a score costs a few
// shuffles, without shared memory or barriers: K and V come through L1, where the lanes of a row read 16 bytes each, side by
// side. A lane uses its loads for all of its rows, whose number decides whether loads or products are the limit.
#include "lowering/require.h"
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// One key after the other: its channels are loaded once and used for all rows of the lane.
void schedule_keys(SimtStages &stages, SimtBlockStages &l, const SimtParameters &parameters) {
    const SdpaStages &s = stages.s;
    const Var r = s.r;
    const int terms = parameters.terms();
    KvBlockStages &p = l.p;
    const LoopLevel kv_block(stages.online_softmax, l.online_block), key(p.score, p.score_keys.key);
    keep_in_lane(p.score, kv_block, parameters, parameters.kv_block);
    p.score.update(0).reorder(r, p.score_keys.key, p.score_keys.subblock).unroll(r).unroll(p.score_keys.key);
    for (const ScoreUpdate &step : p.steps)
        p.score.update(step.update).reorder(r, step.keys.key, step.keys.subblock).unroll(r).unroll(step.keys.key);
    keep_in_lane(l.qk_share, key, parameters, 1, terms)
        .update()
        .reorder(r, s.t, l.channel)
        .unroll(r)
        .unroll(s.t)
        .unroll(l.channel);
    load_in_lane(keep_in_lane(l.key, key, parameters, 1, terms), parameters);
    keep_in_lane(p.row_max, kv_block, parameters)
        .update()
        .reorder(r, p.max_keys.key, p.max_keys.subblock)
        .unroll(r)
        .unroll(p.max_keys.key);
    load_in_lane(keep_in_lane(l.value, {stages.online_softmax, l.online_key}, parameters), parameters);
}

// Returns the loop over blocks of rows, the outermost loop of the result's update besides those over its other arguments.
RVar schedule_online_softmax(SimtStages &stages, Func result, const SimtParameters &parameters) {
    SdpaStages &s = stages.s;
    RVar block("block");
    const LoopLevel whole_call(
        result, distribute_to_lanes(result, {stages.element, stages.row, stages.share, stages.row_lane}, parameters, block));
    keep_in_lane(s.row_begin, whole_call, parameters);
    keep_in_lane(s.row_end, whole_call, parameters);
    load_in_lane(keep_in_lane(stages.query, whole_call, parameters, 1, parameters.terms()), parameters);
    keep_in_lane(stages.online_softmax, whole_call, parameters);
    int update = 0;
    for (SimtBlockStages *l : {&stages.full, &stages.partial}) {
        stages.online_softmax.update(update++)
            .reorder(s.r, l->online_key, l->online_block)
            .unroll(s.r)
            .unroll(l->online_key)
            .never_partition_all();
        schedule_keys(stages, *l, parameters);
    }
    if (stages.lse.defined()) keep_in_lane(stages.lse, whole_call, parameters);
    return block;
}

}  // namespace

RVar distribute_to_lanes(Func result, const LaneLoops &loops, const SimtParameters &parameters, const RVar &block) {
    const SimtShape &lanes = parameters.lanes;
    const int warp_rows = lanes.group_rows();
    require_multiple("channels", lanes.channels, "channel_lanes and what a lane loads together",
                     lanes.channel_lanes * parameters.loaded);
    require_multiple("tile_q", parameters.tile_q, "the rows of a warp", warp_rows);
    RVar warp("warp"), row_lane("row_lane"), lane("lane");
    // The pure stage computes nothing, but without a GPU loop Halide assumes that the host writes the result. Not partitioned:
    // the whole body would be there twice.
    result.gpu_blocks(result.args().back()).gpu_threads(result.args().front());
    result.update()
        .allow_race_conditions()
        .split(loops.row_lane, block, warp, parameters.tile_q / lanes.rows)
        .split(warp, warp, row_lane, warp_rows / lanes.rows)
        .fuse(loops.share, row_lane, lane)
        .reorder(loops.element, loops.row, lane, warp, block)
        .gpu_threads(lane, warp)
        .unroll(loops.element)
        .unroll(loops.row)
        .never_partition_all();
    return lane;
}

Func keep_in_lane(Func f, const LoopLevel &at, const SimtParameters &parameters, int streamed, int lanes) {
    f.compute_at(at).store_in(MemoryType::Register);
    for (const Var &v : f.args()) {
        const std::string &name = v.name();
        const int extent = name == "r"   ? parameters.lanes.rows
                           : name == "k" ? streamed
                           : name == "t" ? lanes
                           : name == "j" ? parameters.lanes.lane_channels()
                                         : 1;
        f.bound_extent(v, extent);
        if (extent > 1 && name != "j") f.unroll(v);
    }
    return f;
}

void load_in_lane(Func f, const SimtParameters &parameters) {
    const Var j("j");
    if (parameters.loaded > 1) f.vectorize(j, parameters.loaded);
    f.unroll(j);
}

void schedule_simt(SimtStages &stages, Func out, const SimtParameters &parameters) {
    const SdpaStages &s = stages.s;
    const RVar block = schedule_online_softmax(stages, out, parameters);
    out.update().reorder({block, s.h, s.b}).gpu_blocks(block, s.h, s.b);
}

void schedule_split_simt(SimtStages &stages, Func out, Func state, const SimtParameters &parameters, int split_keys) {
    require_multiple("split_keys", split_keys, "kv_block", parameters.kv_block);
    const SdpaStages &s = stages.s;
    RVar split_of_rows("split_of_rows");
    state.compute_root();
    const RVar block = schedule_online_softmax(stages, state, parameters);
    state.update()
        .fuse(stages.state_split, block, split_of_rows)
        .reorder({split_of_rows, s.h, s.b})
        .gpu_blocks(split_of_rows, s.h, s.b);
    schedule_merge_of_splits(s, stages.merged, out);
}

// A lane loops over the splits for one channel, and issues the loads of several splits together. The values of a split that
// have no channels are read by the lanes of a warp together.
void schedule_merge_of_splits(const SdpaStages &s, const SdpaStages &merged, Func out) {
    Var some_channels("some_channels"), lane("lane"), row("row");
    constexpr int lanes = 32;
    out.split(s.d, some_channels, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(some_channels, s.i, row)
        .reorder(lane, row, s.h, s.b)
        .gpu_blocks(row, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    for (Func f : {merged.total_max, merged.total_sum, merged.total_pv}) {
        f.compute_at(out, lane).store_in(MemoryType::Register);
        for (const Var &v : f.args()) f.bound_extent(v, 1);
        RVar some("some"), split("split");
        f.update().split(f.rvars()[0], some, split, splits_together).unroll(split).never_partition_all();
    }
}

}  // namespace attune
