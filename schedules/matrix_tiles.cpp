#include "schedules/matrix_tiles.h"

namespace attune {
using namespace Halide;

void schedule_matrix_tiles(Func tiles, Func product, const Var &x, const Var &y, const RVar &along) {
    RVar step("tile_step"), term("tile_term");
    product.update().split(along, step, term, matrix_tile_depth);
    schedule_matrix_tiles(tiles, product, x, y, term, step);
}

void schedule_matrix_tiles(Func tiles, Func product, const Var &x, const Var &y, const RVar &term, const RVar &step) {
    const std::string prefix = product.name();
    Var column(prefix + "_column_tile"), row(prefix + "_row_tile"), lane("tile_lane"), line("tile_line");
    tiles.split(x, column, lane, matrix_tile_side)
        .split(y, row, line, matrix_tile_side)
        .reorder(lane, line, column, row)
        .vectorize(lane)
        .vectorize(line)
        .unroll(column)
        // Halide 21 does not know a tile whose rows lie one after the other.
        .align_storage(x, 2 * matrix_tile_side);
    product.compute_at(tiles, column).store_in(MemoryType::AMXTile);
    for (const Var &v : product.args()) product.bound_extent(v, v.same_as(x) || v.same_as(y) ? matrix_tile_side : 1);
    product.vectorize(x).vectorize(y);
    product.update().reorder(term, x, y, step).atomic().vectorize(term).vectorize(x).vectorize(y);
}

}  // namespace attune
