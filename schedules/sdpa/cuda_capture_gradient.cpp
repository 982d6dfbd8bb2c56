// SPDX-License-Identifier: MIT
// SIMT schedule of the gradient of a captured buffer. Lanes are copies, so that no two add to the same element; the lanes of a
// warp take the same key of neighbouring queries, so that a load of a key or value serves all of them, and copies are
// interleaved, so that lanes that add to the same element write side by side.
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

void keep_pair_in_lane(Func f, const LoopLevel &at) {
    f.compute_at(at).store_in(MemoryType::Register);
    for (const Var &v : f.args()) f.bound_extent(v, 1);
}

void schedule_capture_gradient(CaptureGradientStages &s) {
    Var block("block"), lane("lane"), element("element"), one("one");
    constexpr int lanes = 64;
    s.sums.compute_root()
        .split(s.c, block, lane, lanes, TailStrategy::GuardWithIf)
        .gpu_blocks(block, s.e)
        .gpu_threads(lane)
        .never_partition_all();
    if (s.has_reads) {
        s.sums.update()
            .split(s.c, block, lane, lanes, TailStrategy::GuardWithIf)
            .reorder(s.read, s.key, s.query, lane, block)
            .unroll(s.read)
            .gpu_blocks(block)
            .gpu_threads(lane)
            .never_partition_all();
        for (const Func &f : {s.term, s.qk, s.weight_gradient}) keep_pair_in_lane(f, {s.sums, s.key});
    }
    // A block sums one element: its lanes some copies each, the first lane their sums.
    s.out.compute_root()
        .split(s.x, s.x, one, 1)
        .fuse(s.z, s.w, element)
        .reorder(one, s.x, s.y, element)
        .gpu_blocks(s.x, s.y, element)
        .gpu_threads(one);
    for (Func f : {s.partial_sum, s.sum})
        for (const Var &v : f.args()) f.bound_extent(v, v.name() == s.g.name() ? lanes_of_sum : 1);
    s.partial_sum.compute_at(s.out, s.x).store_in(MemoryType::GPUShared).gpu_threads(s.g);
    s.partial_sum.update().gpu_threads(s.g).never_partition_all();
    s.sum.compute_at(s.out, one);
}

}  // namespace attune
