#include "schedules/matrix_tiles.h"

namespace attune {
using namespace Halide;

void schedule_matrix_tiles(Func tiles, Func product, const Var &x, const Var &y, const RVar &along) {
    Var tile(y.name() + "_row_tile"), lane("tile_lane");
    RVar step("tile_step"), term("tile_term");
    tiles.bound_extent(y, matrix_tile_side)
        .split(x, tile, lane, matrix_tile_side)
        .reorder(lane, y, tile)
        .vectorize(lane)
        .vectorize(y);
    product.compute_at(tiles, tile).store_in(MemoryType::AMXTile);
    for (const Var &v : product.args()) product.bound_extent(v, v.same_as(x) || v.same_as(y) ? matrix_tile_side : 1);
    product.vectorize(x).vectorize(y);
    product.update()
        .split(along, step, term, matrix_tile_depth)
        .reorder(term, x, y, step)
        .atomic()
        .vectorize(term)
        .vectorize(x)
        .vectorize(y);
}

}  // namespace attune
