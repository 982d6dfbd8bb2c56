// SPDX-License-Identifier: MIT
#include "schedules/linear/linear_tasks.h"
#include "lowering/require.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

void require_tile(const PanelParameters &parameters, int lanes) {
    require(parameters.tile_columns > 0, "tile_columns must be given");
    require(parameters.tile_rows > 0, "tile_rows must be given");
    require_multiple("tile_columns", parameters.tile_columns, "the vector width", lanes);
}

void require_task(const PanelParameters &parameters, int lanes) {
    require_tile(parameters, lanes);
    require(parameters.task_rows > 0, "task_rows must be given");
    require_multiple("task_rows", parameters.task_rows, "tile_rows", parameters.tile_rows);
}

void require_pairs(const PanelParameters &parameters) {
    require_multiple("depth_block", parameters.depth_block, "the elements of a pair for each accumulator",
                     2 * parameters.accumulators);
}

void require_one_depth_block(const PanelParameters &parameters) {
    require(parameters.tile_depth_blocks == 1,
            "tile_depth_blocks is " + std::to_string(parameters.tile_depth_blocks) + ", must be 1 here");
}

void require_no_interleaved_vectors(const PanelParameters &parameters) {
    require(parameters.interleaved_vectors == 0,
            "interleaved_vectors is for interleaved depth blocks, and for pairs of few rows");
}

void require_block(const PanelParameters &parameters, int lanes) {
    require(parameters.block == lanes,
            "block is " + std::to_string(parameters.block) + ", must be the vector width, " + std::to_string(lanes));
}

void require_blocks(const PanelParameters &parameters, int lanes) {
    require_block(parameters, lanes);
    require_multiple("depth_block", parameters.depth_block, "block", parameters.block);
}

void fuse_tasks(const LinearSums &s, Func out) {
    out.fuse(no, mo, task).fuse(task, s.h, task).fuse(task, s.b, task).parallel(task);
}

// Constant extents: otherwise stages would get strides known at run time only. Lanes are columns.
static Func lanes_are_columns(const LinearSums &s, Func f, const PanelParameters &parameters, int lanes) {
    return f.bound_extent(s.n, parameters.tile_columns).vectorize(s.n, lanes);
}

void schedule_start(LinearSums &s, Func out, const PanelParameters &parameters, int lanes) {
    lanes_are_columns(s, s.start.compute_at(out, task), parameters, lanes).store_in(MemoryType::Stack);
}

void schedule_tasks(LinearSums &s, Func out, const PanelParameters &parameters, int lanes) {
    out.split(s.n, no, ni, parameters.tile_columns, TailStrategy::GuardWithIf)
        .split(s.m, mo, mi, parameters.tiles_of_task() * parameters.tile_rows, TailStrategy::GuardWithIf)
        .reorder(ni, mi, no, mo, s.h, s.b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores);
    schedule_start(s, out, parameters, lanes);
}

void schedule_tasks_by_tiles(LinearSums &s, Func out, const PanelParameters &parameters, int lanes) {
    out.split(s.n, no, ni, parameters.tile_columns, TailStrategy::GuardWithIf)
        .split(s.m, tile, mi, parameters.tile_rows, TailStrategy::GuardWithIf)
        .split(tile, mo, tile, parameters.tiles_of_task(), TailStrategy::GuardWithIf)
        .reorder(ni, mi, tile, no, mo, s.h, s.b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores).unroll(ni).unroll(mi);  // straight from registers
    schedule_start(s, out, parameters, lanes);
}

void split_in_tiles(LinearSums &s, Stage product, const PanelParameters &parameters) {
    product.split(s.m, mo, mi, parameters.tile_rows, TailStrategy::RoundUp)
        .reorder(s.n, mi, mo, s.product_depth_block, s.h, s.b);
}

void vectorize_product(const LinearSums &s, Stage product, int lanes) { product.vectorize(s.n, lanes).unroll(s.n).unroll(mi); }

void fill_tiles_of_rows(const LinearSums &s, Func of_rows, const PanelParameters &parameters) {
    of_rows.align_bounds(s.m, parameters.tile_rows);
}

void schedule_widened_rows(const LinearSums &s, Func x_rows, const LoopLevel &at, const PanelParameters &parameters,
                           int lanes) {
    if (!x_rows.defined()) return;
    fill_tiles_of_rows(s, x_rows, parameters);
    x_rows.compute_at(at).vectorize(s.k, lanes, TailStrategy::RoundUp);
}

void schedule_sums_of_task(LinearSums &s, Func out, const PanelParameters &parameters, int lanes) {
    fill_tiles_of_rows(s, s.product, parameters);
    lanes_are_columns(s, s.product.compute_at(out, task), parameters, lanes).unroll(s.n);
}

void schedule_odd(PairSums &s, int update, int columns) {
    s.product.update(update).reorder(s.n, s.m, s.odd).vectorize(s.n, columns);
}

Func in_register_tile(const LinearSums &s, Func partial, const LoopLevel &at, int columns, const PanelParameters &parameters) {
    return partial.compute_at(at)
        .store_in(MemoryType::Stack)
        .bound_extent(s.n, columns)
        .bound_extent(s.m, parameters.tile_rows);
}

// Packing in blocks of `depth_of_block` of k, whose `loops` are innermost: along k within a tile of columns, so that the
// addresses of its rows in memory are found once.
static void pack_blocks(const LinearSums &s, Func panel, const BlockTranspose &transpose, int depth_of_block,
                        std::vector<VarOrRVar> loops) {
    panel.split(s.k, ko, ki, depth_of_block, TailStrategy::RoundUp).split(s.n, no, ni, transpose.side);
    for (const Var &v : {ki, ko, no, s.h, s.b}) loops.push_back(v);
    panel.reorder(loops).vectorize(ni).unroll(ki);
    schedule_transpose(transpose, LoopLevel(panel, ko));
}

// Packing of whole rows in place. Not unrolled: only the last vector of a loop tests where the columns end.
static void pack_rows(const LinearSums &s, Func panel, int lanes) { panel.split(s.n, no, ni, lanes).vectorize(ni); }

void schedule_panel(const LinearSums &s, Func panel, const std::optional<BlockTranspose> &transpose, const LoopLevel &at,
                    const PanelParameters &parameters, int lanes) {
    panel.compute_at(at).bound_extent(s.n, parameters.tile_columns);
    if (transpose)
        pack_blocks(s, panel, *transpose, parameters.block, {ni});
    else
        pack_rows(s, panel, lanes);
}

void schedule_pair_panel(const LinearSums &s, Func panel, const std::optional<BlockTranspose> &transpose, const LoopLevel &at,
                         const PanelParameters &parameters, int lanes) {
    schedule_panel(s, panel, transpose, at, parameters, lanes);
    panel.bound(s.e, 0, 2);
    if (transpose)
        panel.reorder(s.e, ni).unroll(s.e);
    else
        panel.vectorize(s.e);
}

void schedule_panel(Bf16DotPanelStages &s, const LoopLevel &at, const PanelParameters &parameters, int lanes) {
    s.panel.compute_at(at).bound_extent(s.n, parameters.tile_columns).bound(s.e, 0, 2).bound(s.u, 0, parameters.accumulators);
    if (!s.transpose) {
        pack_rows(s, s.panel, lanes);
        s.panel.vectorize(s.e);
        return;
    }
    require_multiple("block", parameters.block, "accumulators", parameters.accumulators);
    pack_blocks(s, s.panel, *s.transpose, parameters.block / parameters.accumulators, {ni, s.u});
    s.panel.unroll(s.u).reorder(s.e, ni).unroll(s.e);
}

}  // namespace attune
