// SPDX-License-Identifier: MIT
#include "schedules/merge/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

constexpr int warp = 32;

void in_lane(const MergeSimtRow &row, const MergeSimtStages &s, const LoopLevel &lane) {
    for (Func f : row.all())
        f.compute_at(lane).bound_extent(s.i, 1).bound_extent(s.h, 1).bound_extent(s.b, 1).store_in(MemoryType::Register);
}

}  // namespace

void schedule_merge_simt(MergeSimtStages &s, Func out, Func lse, int block_rows) {
    const Var tile("tile"), row("row"), entry("entry"), lane("lane"), near("near");
    out.split(s.d, near, lane, warp, TailStrategy::GuardWithIf)
        .split(s.i, tile, row, block_rows, TailStrategy::GuardWithIf)
        .fuse(s.h, s.b, entry)
        .reorder(near, lane, row, entry, tile)
        .gpu_blocks(entry, tile)
        .gpu_threads(lane, row);
    in_lane(s.of_out, s, LoopLevel(out, lane));
    lse.split(s.i, tile, lane, warp * block_rows, TailStrategy::GuardWithIf)
        .fuse(s.h, s.b, entry)
        .reorder(lane, entry, tile)
        .gpu_blocks(entry, tile)
        .gpu_threads(lane);
    in_lane(s.of_lse, s, LoopLevel(lse, lane));
}

}  // namespace attune
