// SPDX-License-Identifier: MIT
// Few rows whose sums stay in L1: rank-k updates by rows of weights, which are read in place.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"

namespace attune {
using namespace Halide;

void schedule_form(RankKStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_tile(parameters, lanes);
    require(parameters.task_rows == 0, "task_rows is not for update_depth: a task has the rows of a tile");
    require(parameters.tile_depth_blocks == 1, "tile_depth_blocks is not for update_depth");
    const Var n = s.n, m = s.m, h = s.h, b = s.b;
    Var task("task"), no("no"), ni("ni"), vector("vector"), mo("mo"), mi("mi");

    // Vectors first: a task with few columns should not loop over absent ones, with empty stores.
    out.split(n, vector, ni, lanes, TailStrategy::PredicateStores)
        .vectorize(ni)
        .split(vector, no, vector, parameters.tile_columns / lanes, TailStrategy::GuardWithIf)
        .split(m, mo, mi, parameters.tile_rows, TailStrategy::GuardWithIf)
        .reorder(ni, vector, mi, no, mo, h, b)
        .fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task);

    // As many columns as exist: the last task may have few.
    auto lanes_are_columns = [&](Func f, const LoopLevel &at) {
        f.compute_at(at).store_in(MemoryType::Stack).align_bounds(n, lanes).bound_storage(n, parameters.tile_columns);
        f.vectorize(n, lanes, TailStrategy::RoundUp);
    };
    s.product.bound_extent(m, parameters.tile_rows), s.partial.bound_extent(m, parameters.tile_rows);
    lanes_are_columns(s.start, LoopLevel(out, task));
    lanes_are_columns(s.product, LoopLevel(out, task));
    lanes_are_columns(s.partial, LoopLevel(s.product, s.product_depth_block));
    s.product.update().reorder(n, m, s.product_depth_block, h, b).vectorize(n, lanes, TailStrategy::RoundUp);

    auto in_lanes = [&](Stage sums) { return sums.split(n, no, ni, lanes, TailStrategy::RoundUp).vectorize(ni); };
    in_lanes(s.partial.update(0)).reorder(ni, m, s.term, no, s.rank_k_update).unroll(s.term).unroll(m);
    in_lanes(s.partial.update(1)).reorder(ni, m, no, s.partial_k).unroll(m);
    schedule_widened_rows(s, s.x_rows, LoopLevel(out, task), parameters, lanes);
}

}  // namespace attune
