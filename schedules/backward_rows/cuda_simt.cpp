// SPDX-License-Identifier: MIT
#include "schedules/backward_rows/simt_schedules.h"

namespace attune {
using namespace Halide;

void schedule_sink_gradient_simt(SinkGradientStages &s, Func out, int lanes) {
    const Var block("block"), only("only"), lane("lane");
    const RVar turn("turn"), of_lane("of_lane");
    const RVar query = s.sum.rvars()[0], entry = s.sum.rvars()[1];
    Func of_lanes = s.sum.update().split(query, turn, of_lane, lanes).rfactor(of_lane, lane);
    out.split(s.h, block, only, 1).gpu_blocks(block).gpu_threads(only);
    s.sum.compute_at(out, block).store_in(MemoryType::GPUShared);
    of_lanes.compute_at(out, block).store_in(MemoryType::GPUShared).bound(lane, 0, lanes).gpu_threads(lane);
    of_lanes.update().reorder(turn, entry, lane).gpu_threads(lane);
}

void schedule_capture_sum_simt(CaptureSumStages &s, Func out, int lanes) {
    const Var block("block"), lane("lane");
    out.split(s.y, block, lane, lanes, TailStrategy::GuardWithIf).reorder(lane, block, s.j);
    out.gpu_blocks(block, s.j).gpu_threads(lane);
    s.sum.compute_at(out, lane);
}

}  // namespace attune
