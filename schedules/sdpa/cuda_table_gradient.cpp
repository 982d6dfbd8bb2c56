// SPDX-License-Identifier: MIT
// SIMT schedule of the gradients of a bias and of slopes: a kernel for the elements of the bias, one for the queries of the
// slopes, and one for their sums.
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

void schedule_table_gradients(TableGradientStages &s) {
    const Var block("block"), lane("lane"), one("one");
    constexpr int lanes = 64;
    s.bias.compute_root()
        .split(s.j, block, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(block, s.i, block)
        .reorder(lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    keep_pair_in_lane(s.bias_sum, {s.bias, lane});
    for (const Func &f : {s.for_bias.summand, s.for_bias.qk, s.for_bias.weight_gradient})
        keep_pair_in_lane(f, {s.bias_sum, s.shared[0]});

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
    for (const Func &f : {s.for_slopes.summand, s.for_slopes.qk, s.for_slopes.weight_gradient})
        keep_pair_in_lane(f, {s.slope_rows, s.key});

    // A block sums the queries of a head: its lanes some each, the first lane their sums.
    s.slopes.compute_root().split(s.h, s.h, one, 1).reorder(one, s.h, s.b).gpu_blocks(s.h, s.b).gpu_threads(one);
    for (Func f : {s.partial_sum, s.sum})
        for (const Var &v : f.args()) f.bound_extent(v, v.name() == s.g.name() ? lanes_of_slope : 1);
    s.partial_sum.compute_at(s.slopes, s.h).store_in(MemoryType::GPUShared).gpu_threads(s.g);
    s.partial_sum.update().gpu_threads(s.g).never_partition_all();
    s.sum.compute_at(s.slopes, one);
}

}  // namespace attune
