// Products of matrix tiles (AMX).
#include "lowering/require.h"
#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void schedule_tiles(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type()), width = 2 * matrix_tile_side;
    const bool to_out = tuning.tile_chunks == 0;  // tile by tile, through the whole depth
    require(tuning.tile_chunks <= 1, "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 0 or 1 here");
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    if (s.transpose) require_block(tuning.block, lanes);
    if (to_out)
        require_multiple("tile_columns", tuning.tile_columns, "two sides of a matrix tile", width);
    else
        require_multiple("tile_columns", tuning.tile_columns, "the side of a matrix tile", matrix_tile_side);
    require_multiple("tile_rows", tuning.tile_rows, "the side of a matrix tile", matrix_tile_side);
    require_multiple("task_rows", tuning.task_rows, "tile_rows", tuning.tile_rows);
    const Var n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    Var task("task"), tile("tile"), columns("columns"), no("no"), ni("ni"), mo("mo"), mi("mi");

    out.split(n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf);
    if (to_out)
        out.split(ni, columns, ni, width, TailStrategy::GuardWithIf)
            .split(m, tile, mi, tuning.tile_rows, TailStrategy::GuardWithIf)
            .split(tile, mo, tile, tuning.tiles_of_task(), TailStrategy::GuardWithIf)
            .reorder(ni, mi, columns, tile, no, mo, h, b);
    else
        out.split(m, mo, mi, tuning.tiles_of_task() * tuning.tile_rows, TailStrategy::GuardWithIf)
            .reorder(ni, mi, no, mo, h, b);
    out.fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.start.compute_at(out, task).bound_extent(n, tuning.tile_columns).vectorize(n, lanes).store_in(MemoryType::Stack);

    const int product_columns = to_out ? width : tuning.tile_columns;
    s.product.compute_at(out, to_out ? columns : task).bound_extent(n, product_columns).vectorize(n, lanes).unroll(n);
    Stage product = s.product.update();
    if (to_out)
        s.product.bound_extent(m, tuning.tile_rows), product.reorder(n, m, s.product_chunk, h, b);
    else
        product.split(m, mo, mi, tuning.tile_rows, TailStrategy::RoundUp).reorder(n, mi, mo, s.product_chunk, h, b);
    product.vectorize(n, lanes).unroll(n);

    // All rows of a task take its weights, or a chunk of them before the next; a tile of rows is laid in L1 for all columns.
    const LoopLevel of_chunk(s.product, s.product_chunk), of_rows(s.product, mo);
    schedule_panel(s, to_out ? LoopLevel(out, task) : of_chunk, tuning.tile_columns, tuning.block, lanes);
    // A cache line more for each row: rows of a matrix tile that lie a power of two apart would share few sets of L1.
    s.panel.align_storage(n, tuning.tile_columns + matrix_tile_side);
    s.x_rows.align_storage(k, tuning.chunk + matrix_tile_depth);
    s.x_rows.compute_at(to_out ? LoopLevel(out, tile) : of_rows).vectorize(k, 2 * lanes, TailStrategy::RoundUp);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(to_out ? of_chunk : of_rows).bound_extent(n, product_columns).bound_extent(m, tuning.tile_rows);
    // Few columns have one row of tiles, which gains nothing by being joined.
    const int together = tuning.tile_rows == matrix_tile_side ? 1 : 4;
    schedule_matrix_tiles(tiles, s.partial, {n, product_columns}, {m, tuning.tile_rows}, s.partial_k, s.partial_tile, together);
}

void schedule_weight_tiles(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type()), side = matrix_tile_side, width = 2 * side;
    require(tuning.tile_chunks == 1, "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 1 here");
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    require_block(tuning.block, lanes);
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
    // Tile by tile: weights that come from memory come slower by 32 rows at a time than by 16.
    schedule_matrix_tiles(tiles, s.partial, {m, side}, {n, width}, s.partial_k, s.partial_tile, 1);
}

}  // namespace attune
