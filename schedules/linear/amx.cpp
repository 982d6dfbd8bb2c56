// SPDX-License-Identifier: MIT
// Products of AMX tiles.
#include "generators/linear/packed_panels.h"
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {
constexpr int side = amx_tile_side, width = 2 * side;

// Columns of a tile through the whole depth: those of two AMX tiles, or of a panel of a packed weight.
int columns_of_tile(const AmxStages &s) { return s.panel.defined() ? width : PackedPanels::columns; }

void require_parameters(const AmxStages &s, const PanelParameters &parameters, int lanes) {
    require(parameters.tile_depth_blocks <= 1,
            "tile_depth_blocks is " + std::to_string(parameters.tile_depth_blocks) + ", must be 0 or 1 here");
    require_multiple("depth_block", parameters.depth_block, "the depth of an AMX tile", amx_tile_depth);
    if (s.transpose) require_block(parameters, lanes);
    if (parameters.tile_depth_blocks == 0)
        require_multiple("tile_columns", parameters.tile_columns, "the columns of a tile", columns_of_tile(s));
    else
        require_multiple("tile_columns", parameters.tile_columns, "the side of an AMX tile", side);
    require_multiple("tile_rows", parameters.tile_rows, "the side of an AMX tile", side);
    require_multiple("task_rows", parameters.task_rows, "tile_rows", parameters.tile_rows);
}

// Tiles of `columns` columns; of_tiles, of_rows and of_panel are the loops that compute them and lay their operands.
void schedule_tiles(AmxStages &s, const LoopLevel &of_tiles, const LoopLevel &of_rows, const LoopLevel &of_panel, int columns,
                    const PanelParameters &parameters, int lanes) {
    // A cache line more for each row: rows of an AMX tile a power of two apart would share few sets of L1.
    s.x_rows.align_storage(s.k, parameters.depth_block + amx_tile_depth);
    schedule_widened_rows(s, s.x_rows, of_rows, parameters, 2 * lanes);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(of_tiles).bound_extent(s.m, parameters.tile_rows);
    // Four tiles of sums together; a single row of tiles over laid pairs gains nothing by that.
    int lanes_of_tiles = columns, together = 4;
    if (s.panel.defined()) {
        schedule_pair_panel(s, s.panel, s.transpose, of_panel, parameters, lanes);
        s.panel.align_storage(s.n, parameters.tile_columns + side);
        tiles.bound_extent(s.n, columns);
        if (parameters.tile_rows == side) together = 1;
    } else {
        lanes_of_tiles = PackedPanels::columns;
        tiles.bound(s.n, 0, lanes_of_tiles).bound_extent(s.p, columns / lanes_of_tiles);
    }
    schedule_amx_tiles(tiles, s.partial, {s.n, lanes_of_tiles}, {s.m, parameters.tile_rows}, s.partial_k, s.partial_tile,
                       together);
}

// All rows of a task use a depth block of its weights before the next; a tile of rows is laid in L1 for all columns.
void schedule_depth_blocks(AmxStages &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    Stage product = s.product.update();
    split_in_tiles(s, product, parameters);
    product.vectorize(s.n, lanes).unroll(s.n);
    const LoopLevel rows(s.product, mo);
    schedule_tiles(s, rows, rows, LoopLevel(s.product, s.product_depth_block), parameters.tile_columns, parameters, lanes);
}

// Columns of a task. Of a packed weight, which no task lays, a task has about tile_columns: the fewest panels with which an
// even number of tasks covers the weight. Two threads then end together, and each finds its panels in its cache the next time.
Expr columns_of_task(const AmxStages &s, Func out, const PanelParameters &parameters) {
    if (s.panel.defined()) return parameters.tile_columns;
    const int panel = PackedPanels::columns, panels_of_two_tasks = 2 * parameters.tile_columns / panel;
    const Expr panels = (out.output_buffer().dim(0).extent() + panel - 1) / panel,
               pairs = max((panels + panels_of_two_tasks / 2) / panels_of_two_tasks, 1);
    return max((panels + 2 * pairs - 1) / (2 * pairs), 1) * panel;
}

// Tile by tile, through the whole depth, for which the weights of a task are laid.
void schedule_whole_depth(AmxStages &s, Func out, const PanelParameters &parameters, int lanes) {
    const Var n = s.n, m = s.m, h = s.h, b = s.b;
    const int tile_width = columns_of_tile(s);
    out.split(n, no, ni, columns_of_task(s, out, parameters), TailStrategy::GuardWithIf)
        .split(ni, columns, ni, tile_width, TailStrategy::GuardWithIf)
        .split(m, tile, mi, parameters.tile_rows, TailStrategy::GuardWithIf)
        .split(tile, mo, tile, parameters.tiles_of_task(), TailStrategy::GuardWithIf)
        .reorder(ni, mi, columns, tile, no, mo, h, b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.start.compute_at(out, columns).bound_extent(n, tile_width).vectorize(n, lanes).store_in(MemoryType::Stack);
    s.product.compute_at(out, columns)
        .bound_extent(n, tile_width)
        .bound_extent(m, parameters.tile_rows)
        .vectorize(n, lanes)
        .unroll(n);
    s.product.update().reorder(n, m, s.product_depth_block, h, b).vectorize(n, lanes).unroll(n);
    schedule_tiles(s, LoopLevel(s.product, s.product_depth_block), LoopLevel(out, tile), LoopLevel(out, task), tile_width,
                   parameters, lanes);
}

}  // namespace

void schedule_form(AmxStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_parameters(s, parameters, lanes);
    if (parameters.tile_depth_blocks == 0)
        schedule_whole_depth(s, out, parameters, lanes);
    else
        schedule_depth_blocks(s, out, parameters, lanes);
}

void schedule_form(AmxWeightStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_one_depth_block(parameters);
    require_multiple("depth_block", parameters.depth_block, "the depth of an AMX tile", amx_tile_depth);
    require_block(parameters, lanes);
    require(parameters.tile_rows == side, "tile_rows must be 16");
    require_multiple("tile_columns", parameters.tile_columns, "two sides of an AMX tile", width);
    const Var e = s.e, n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;

    // The last tile of weights read in place shifts inwards and repeats columns of the tile before.
    out.split(n, tile, ni, width, s.panel.defined() ? TailStrategy::GuardWithIf : TailStrategy::ShiftInwards)
        .split(tile, no, tile, parameters.tile_columns / width, TailStrategy::GuardWithIf)
        .split(m, mo, mi, side, TailStrategy::GuardWithIf)
        .reorder(ni, mi, tile, no, mo, h, b);
    fuse_tasks(s, out);
    out.vectorize(ni, lanes, TailStrategy::PredicateStores);
    s.x_pairs.compute_at(out, task)
        .bound(e, 0, 2)
        .bound_extent(m, side)
        .split(k, ko, ki, parameters.block, TailStrategy::RoundUp)
        .reorder(e, m, ki, ko, h, b)
        .vectorize(m)
        .unroll(e)
        .unroll(ki);
    schedule_transpose(s.transpose, LoopLevel(s.x_pairs, ko));

    const LoopLevel one_tile(out, tile), depth_block(s.product, s.product_depth_block);
    s.start.compute_at(one_tile).bound_extent(n, width).vectorize(n, lanes).store_in(MemoryType::Stack);
    s.product.compute_at(one_tile).bound_extent(n, width).bound_storage(m, side).vectorize(n, lanes).store_in(
        MemoryType::Stack);
    s.product.update().reorder(n, m, s.product_depth_block, h, b).vectorize(n, lanes).unroll(n);
    if (s.panel.defined())
        s.panel.compute_at(depth_block)
            .bound(k, 0, amx_tile_depth)
            .bound_extent(n, width)
            .reorder(k, s.t, n, h, b)
            .vectorize(k);
    Func tiles = s.partial.in(s.product);
    tiles.compute_at(depth_block).bound_extent(n, width).bound_extent(m, side).store_in(MemoryType::Stack);
    // Tile by tile: weights from memory arrive more slowly by 32 rows at a time than by 16.
    schedule_amx_tiles(tiles, s.partial, {m, side}, {n, width}, s.partial_k, s.partial_tile, 1);
}

}  // namespace attune
