// SPDX-License-Identifier: MIT
#include "schedules/amx_tiles.h"

namespace attune {
using namespace Halide;

void schedule_amx_tiles(Func tiles, Func product, const TiledSide &x, const TiledSide &y, const RVar &along) {
    RVar step("tile_step"), term("tile_term");
    for (int n = 0; n < product.num_update_definitions(); n++) product.update(n).split(along, step, term, amx_tile_depth);
    schedule_amx_tiles(tiles, product, x, y, term, step);
}

void schedule_amx_tiles(Func tiles, Func product, const TiledSide &x, const TiledSide &y, const RVar &term, const RVar &step,
                        int together) {
    const auto of_side = [](const TiledSide &side, int at_most) {
        while (side.extent / amx_tile_side % at_most != 0) at_most /= 2;
        return at_most;
    };
    const int rows_together = of_side(y, std::min(together, 2)), columns_together = of_side(x, together / rows_together);
    const std::string prefix = product.name();
    Var columns(prefix + "_column_tiles"), column(prefix + "_column_tile"), lane("tile_lane");
    Var rows(prefix + "_row_tiles"), row(prefix + "_row_tile"), line("tile_line");
    tiles.split(x.var, columns, lane, columns_together * amx_tile_side)
        .split(lane, column, lane, amx_tile_side)
        .split(y.var, rows, line, rows_together * amx_tile_side)
        .split(line, row, line, amx_tile_side)
        .reorder(lane, line, column, row, columns, rows)
        .vectorize(lane)
        .vectorize(line)
        .unroll(column)
        .unroll(row)
        // Halide 21 does not recognise a tile whose rows are contiguous.
        .align_storage(x.var, 2 * amx_tile_side);
    product.compute_at(tiles, column).store_in(MemoryType::AMXTile);
    for (const Var &v : product.args()) product.bound_extent(v, v.same_as(x.var) || v.same_as(y.var) ? amx_tile_side : 1);
    product.vectorize(x.var).vectorize(y.var);
    for (int n = 0; n < product.num_update_definitions(); n++)
        product.update(n).reorder(term, x.var, y.var, step).atomic().vectorize(term).vectorize(x.var).vectorize(y.var);
}

}  // namespace attune
