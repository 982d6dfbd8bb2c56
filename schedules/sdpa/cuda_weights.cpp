// SPDX-License-Identifier: MIT
// SIMT schedule of weights as an output: a kernel whose lanes add the weights of a query each, and one whose lanes write
// neighbouring keys.
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

void schedule_weights_simt(WeightsSimtStages &s) {
    const Var block("block"), lane("lane");
    constexpr int lanes = 64;
    s.total.compute_root()
        .split(s.i, block, lane, lanes, TailStrategy::GuardWithIf)
        .reorder(lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    s.total.update()
        .split(s.i, block, lane, lanes, TailStrategy::GuardWithIf)
        .reorder(s.key, lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    for (Func f : {s.weight_of_total, s.qk_of_total}) keep_pair_in_lane(f, {s.total, s.key});

    s.out.compute_root()
        .split(s.j, block, lane, lanes, TailStrategy::GuardWithIf)
        .fuse(block, s.i, block)
        .reorder(lane, block, s.h, s.b)
        .gpu_blocks(block, s.h, s.b)
        .gpu_threads(lane)
        .never_partition_all();
    keep_pair_in_lane(s.sum, {s.out, lane});
    for (Func f : {s.of_head, s.qk}) keep_pair_in_lane(f, {s.sum, s.head});
}

}  // namespace attune
