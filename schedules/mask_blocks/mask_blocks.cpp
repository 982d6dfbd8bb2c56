// SPDX-License-Identifier: MIT
#include "schedules/mask_blocks/mask_blocks_schedules.h"

namespace attune {
using namespace Halide;

void schedule_mask_blocks(MaskBlocksStages &s, Func out, int group, const Target &target) {
    // A mask compares positions: lanes of its widest type.
    const int lanes = target.natural_vector_size(Int(32));
    // Not fused with heads and entries: Halide would not see that a task has one of each.
    out.parallel(s.t);
    s.span.compute_at(out, s.c);
    s.span.update().reorder(s.key, s.key_group);
    s.column.compute_at(s.span, s.key_group).bound_extent(s.k, group).vectorize(s.k, lanes);
    s.column.update().reorder(s.k, s.query, s.head).vectorize(s.k, lanes);
    for (const Var &v : {s.c, s.t, s.h, s.b}) s.column.bound_extent(v, 1), s.span.bound_extent(v, 1);
}

}  // namespace attune
