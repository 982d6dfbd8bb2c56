// Products of matrix tiles (AMX).
#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include "schedules/require.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

namespace {

void require_sums(const PanelTuning &tuning) {
    require(tuning.tile_chunks == 1, "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 1 here");
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
}

}  // namespace

void schedule_tiles(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_sums(tuning);
    if (s.transpose) require_block(tuning.block, lanes);
    require_multiple("tile_columns", tuning.tile_columns, "the side of a matrix tile", matrix_tile_side);
    require_multiple("tile_rows", tuning.tile_rows, "the side of a matrix tile", matrix_tile_side);
    require_multiple("task_rows", tuning.task_rows, "tile_rows", tuning.tile_rows);
    const Var n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    Var task("task"), no("no"), ni("ni"), mo("mo"), mi("mi");

    out.split(n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf)
        .split(m, mo, mi, tuning.task_rows, TailStrategy::GuardWithIf)
        .reorder(ni, mi, no, mo, h, b)
        .fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.start.compute_at(out, task).bound_extent(n, tuning.tile_columns).vectorize(n, lanes).store_in(MemoryType::Stack);
    s.product.compute_at(out, task).bound_extent(n, tuning.tile_columns).vectorize(n, lanes).unroll(n);
    s.product.update()
        .split(m, mo, mi, tuning.tile_rows, TailStrategy::RoundUp)
        .reorder(n, mi, mo, s.product_chunk, h, b)
        .vectorize(n, lanes)
        .unroll(n);

    // All rows take a chunk of weights before the next, and a tile of rows all of its columns.
    const LoopLevel chunk(s.product, s.product_chunk), tile(s.product, mo);
    schedule_panel(s, chunk, tuning.tile_columns, tuning.block, lanes);
    // A cache line more for each row: rows of a matrix tile that lie a power of two apart would share few sets of L1.
    s.panel.align_storage(n, tuning.tile_columns + matrix_tile_side);
    s.x_rows.align_storage(k, tuning.chunk + matrix_tile_depth);
    s.x_rows.compute_at(chunk).vectorize(k, 2 * lanes, TailStrategy::RoundUp);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(tile).bound_extent(n, tuning.tile_columns).bound_extent(m, tuning.tile_rows);
    schedule_matrix_tiles(tiles, s.partial, n, m, s.partial_k);
}

void schedule_weight_tiles(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type()), side = matrix_tile_side, width = 2 * side;
    require_sums(tuning), require_block(tuning.block, lanes);
    require(tuning.tile_rows == side, "tile_rows must be 16");
    require_multiple("tile_columns", tuning.tile_columns, "two sides of a matrix tile", width);
    const Var e = s.e, n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    Var task("task"), tile("tile"), no("no"), ni("ni"), mo("mo"), mi("mi"), ko("ko"), ki("ki");

    // The last tile of weights that are read as they lie gives columns that the one before gave, too.
    out.split(n, tile, ni, width, s.panel.defined() ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(tile, no, tile, tuning.tile_columns / width, TailStrategy::GuardWithIf)
        .split(m, mo, mi, side, TailStrategy::GuardWithIf)
        .reorder(ni, mi, tile, no, mo, h, b)
        .fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.x_pairs.compute_at(out, task)
        .bound(e, 0, 2)
        .bound_extent(m, side)
        .split(k, ko, ki, tuning.block, TailStrategy::RoundUp)
        .reorder(e, m, ki, ko, h, b)
        .vectorize(m)
        .unroll(e)
        .unroll(ki);
    schedule_transpose(*s.transpose, LoopLevel(s.x_pairs, ko));

    const LoopLevel one_tile(out, tile), chunk(s.product, s.product_chunk);
    s.start.compute_at(one_tile).bound_extent(n, width).vectorize(n, lanes).store_in(MemoryType::Stack);
    s.product.compute_at(one_tile).bound_extent(n, width).bound_storage(m, side).vectorize(n, lanes).store_in(
        MemoryType::Stack);
    s.product.update().reorder(n, m, s.product_chunk, h, b).vectorize(n, lanes).unroll(n);
    if (s.panel.defined())
        s.panel.compute_at(chunk).bound(k, 0, matrix_tile_depth).bound_extent(n, width).reorder(k, s.t, n, h, b).vectorize(k);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(chunk).bound_extent(n, width).bound_extent(m, side).store_in(MemoryType::Stack);
    schedule_matrix_tiles(tiles, s.partial, m, n, s.partial_k, s.partial_tile);
}

}  // namespace attune
