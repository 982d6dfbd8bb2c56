// SPDX-License-Identifier: MIT
// SIMT schedule of the gradients of a bias and of slopes: a kernel for the elements of the bias, one for the queries of the
// slopes, and one for their sums.
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

constexpr int lanes = 64;

// A pair is in the registers of its lane.
void in_lane(TableGradientStages::OfPair &p, const LoopLevel &at) {
    for (Func f : {p.summand, p.qk, p.weight_gradient}) {
        f.compute_at(at).store_in(MemoryType::Register);
        for (const Var &v : f.args()) f.bound_extent(v, 1);
    }
}

}  // namespace

void schedule_table_gradients(TableGradientStages &s) {
    const Var block("block"), lane("lane"), one("one");
    s.bias.compute_root()
        .split(s.j, block, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(block, s.i, block)
        .reorder(lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    s.bias_sum.compute_at(s.bias, lane).store_in(MemoryType::Register);
    for (const Var &v : s.bias_sum.args()) s.bias_sum.bound_extent(v, 1);
    in_lane(s.for_bias, {s.bias_sum, s.shared[0]});

    s.slope_rows.compute_root()
        .split(s.i, block, lane, lanes, TailStrategy::GuardWithIf)
        .reorder(lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    s.slope_rows.update()
        .split(s.i, block, lane, lanes, TailStrategy::GuardWithIf)
        .reorder(s.key, lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    in_lane(s.for_slopes, {s.slope_rows, s.key});

    // A block sums the queries of a head: its lanes some each, the first lane their sums.
    s.slopes.compute_root().split(s.h, s.h, one, 1).reorder(one, s.h, s.b).gpu_blocks(s.h, s.b).gpu_threads(one);
    for (Func f : {s.partial_sum, s.sum})
        for (const Var &v : f.args()) f.bound_extent(v, v.name() == s.g.name() ? lanes_of_slope : 1);
    s.partial_sum.compute_at(s.slopes, s.h).store_in(MemoryType::GPUShared).gpu_threads(s.g);
    s.partial_sum.update().gpu_threads(s.g).never_partition_all();
    s.sum.compute_at(s.slopes, one);
}

}  // namespace attune
