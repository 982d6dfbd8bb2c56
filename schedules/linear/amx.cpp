// SPDX-License-Identifier: MIT
// Products of matrix tiles (AMX).
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/matrix_tiles.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {
constexpr int side = matrix_tile_side, width = 2 * side;

void require_numbers(const AmxStages &s, const PanelTuning &tuning, int lanes) {
    require(tuning.tile_chunks <= 1, "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 0 or 1 here");
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    if (s.transpose) require_block(tuning, lanes);
    if (tuning.tile_chunks == 0)
        require_multiple("tile_columns", tuning.tile_columns, "two sides of a matrix tile", width);
    else
        require_multiple("tile_columns", tuning.tile_columns, "the side of a matrix tile", side);
    require_multiple("tile_rows", tuning.tile_rows, "the side of a matrix tile", side);
    require_multiple("task_rows", tuning.task_rows, "tile_rows", tuning.tile_rows);
}

// Tiles of so many columns, computed and laid at the loops that are given.
void schedule_tiles(AmxStages &s, const LoopLevel &of_tiles, const LoopLevel &of_rows, const LoopLevel &of_panel, int columns,
                    const PanelTuning &tuning, int lanes) {
    schedule_pair_panel(s, s.panel, s.transpose, of_panel, tuning, lanes);
    // A cache line more for each row: rows of a matrix tile that lie a power of two apart would share few sets of L1.
    s.panel.align_storage(s.n, tuning.tile_columns + side);
    s.x_rows.align_storage(s.k, tuning.chunk + matrix_tile_depth);
    s.x_rows.compute_at(of_rows).vectorize(s.k, 2 * lanes, TailStrategy::RoundUp);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(of_tiles).bound_extent(s.n, columns).bound_extent(s.m, tuning.tile_rows);
    // Few columns have one row of tiles, which gains nothing by being joined.
    const int together = tuning.tile_rows == side ? 1 : 4;
    schedule_matrix_tiles(tiles, s.partial, {s.n, columns}, {s.m, tuning.tile_rows}, s.partial_k, s.partial_tile, together);
}

// All rows of a task take a chunk of its weights before the next; a tile of rows is laid in L1 for all columns.
void schedule_chunks(AmxStages &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    Stage product = s.product.update();
    split_in_tiles(s, product, tuning);
    product.vectorize(s.n, lanes).unroll(s.n);
    const LoopLevel rows(s.product, mo);
    schedule_tiles(s, rows, rows, LoopLevel(s.product, s.product_chunk), tuning.tile_columns, tuning, lanes);
}

// Tile by tile, through the whole depth, for which the weights of a task are laid.
void schedule_whole_depth(AmxStages &s, Func out, const PanelTuning &tuning, int lanes) {
    const Var n = s.n, m = s.m, h = s.h, b = s.b;
    out.split(n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf)
        .split(ni, columns, ni, width, TailStrategy::GuardWithIf)
        .split(m, tile, mi, tuning.tile_rows, TailStrategy::GuardWithIf)
        .split(tile, mo, tile, tuning.tiles_of_task(), TailStrategy::GuardWithIf)
        .reorder(ni, mi, columns, tile, no, mo, h, b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores);
    schedule_start(s, out, tuning, lanes);
    s.product.compute_at(out, columns).bound_extent(n, width).bound_extent(m, tuning.tile_rows).vectorize(n, lanes).unroll(n);
    s.product.update().reorder(n, m, s.product_chunk, h, b).vectorize(n, lanes).unroll(n);
    schedule_tiles(s, LoopLevel(s.product, s.product_chunk), LoopLevel(out, tile), LoopLevel(out, task), width, tuning, lanes);
}

}  // namespace

void schedule_form(AmxStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_numbers(s, tuning, lanes);
    if (tuning.tile_chunks == 0)
        schedule_whole_depth(s, out, tuning, lanes);
    else
        schedule_chunks(s, out, tuning, lanes);
}

void schedule_form(AmxWeightStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_one_chunk(tuning);
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    require_block(tuning, lanes);
    require(tuning.tile_rows == side, "tile_rows must be 16");
    require_multiple("tile_columns", tuning.tile_columns, "two sides of a matrix tile", width);
    const Var e = s.e, n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;

    // The last tile of weights that are read as they lie gives columns that the one before gave, too.
    out.split(n, tile, ni, width, s.panel.defined() ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(tile, no, tile, tuning.tile_columns / width, TailStrategy::GuardWithIf)
        .split(m, mo, mi, side, TailStrategy::GuardWithIf)
        .reorder(ni, mi, tile, no, mo, h, b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.x_pairs.compute_at(out, task)
        .bound(e, 0, 2)
        .bound_extent(m, side)
        .split(k, ko, ki, tuning.block, TailStrategy::RoundUp)
        .reorder(e, m, ki, ko, h, b)
        .vectorize(m)
        .unroll(e)
        .unroll(ki);
    schedule_transpose(s.transpose, LoopLevel(s.x_pairs, ko));

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
