// SPDX-License-Identifier: MIT
// SIMT schedule of masked softmax. The lanes of a row read it side by side: the first time from memory, then from the cache.
// Their partial results are combined by exchanges in a warp and, where several warps share a row, in shared memory.
#include "lowering/require.h"
#include "schedules/masked_softmax/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// A lane's own values, in registers.
void in_lane(const SoftmaxSimtStages &s, Func f, const LoopLevel &at) {
    f.compute_at(at).store_in(MemoryType::Register);
    for (const Var &v : f.args())
        if (v.name() != s.n.name()) f.bound_extent(v, 1);
}

}  // namespace

void schedule_softmax_simt(SoftmaxSimtStages &s, Func out, const SoftmaxLanes &lanes, int block_rows) {
    const bool meet = lanes.lanes > lanes.reach;
    require(!meet || block_rows == 1, "lanes that meet in shared memory take block_rows=1");
    require_multiple("lanes", lanes.lanes, "the lanes that reach each other", lanes.reach);

    // The pure stage computes nothing, but without a GPU loop Halide assumes that the host writes the result.
    Var block("block"), row("row");
    out.gpu_blocks(s.b).gpu_threads(s.j);
    out.update()
        .allow_race_conditions()
        .split(s.i, block, row, block_rows, TailStrategy::GuardWithIf)
        .fuse(block, s.h, block)
        .fuse(block, s.b, block)
        .reorder({s.key, s.turn, s.lane, row, block})
        .gpu_blocks(block)
        .gpu_threads(s.lane, row)
        .unroll(s.key)
        .never_partition_all();

    const LoopLevel lane(out, s.lane);
    for (Func f : {s.row_max, s.row_sum, s.masked_weight, s.scale}) in_lane(s, f, lane);
    if (meet) {
        for (Func f : {s.group_max, s.group_sum})
            f.compute_at(out, block).store_in(MemoryType::GPUShared).bound_extent(s.e, lanes.lanes).gpu_threads(s.e);
        in_lane(s, s.lane_max, {s.group_max, s.e});
        in_lane(s, s.lane_sum, {s.group_sum, s.e});
        // Each lane reads the results of the groups, for its sum and for its output.
        in_lane(s, s.row_max.clone_in(s.lane_sum), {s.group_sum, s.e});
    } else {
        for (Func f : {s.lane_max, s.lane_sum, s.group_max, s.group_sum}) in_lane(s, f, lane);
    }
    s.lane_max.update().reorder(s.max_key, s.max_turn).unroll(s.max_key).never_partition_all();
    s.lane_sum.update().reorder(s.sum_key, s.sum_turn).unroll(s.sum_key).never_partition_all();
    // All loads of a turn are issued before its first result is stored.
    in_lane(s, s.weight, {out, s.turn});
    s.weight.bound_extent(s.n, lanes.keys).unroll(s.n);
}

}  // namespace attune
