#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include "schedules/prefetch.h"
#include "schedules/require.h"

namespace attune {
using namespace Halide;

void fetch_weights_ahead(LinearStages &s, const ImageParam &weight, int depth, int block) {
    const bool by_tiles = s.x_pairs.defined() && !s.panel.defined();
    require(depth == 0 || by_tiles || s.block_by_block, "prefetch_depth is for few rows, of weights that are read as they lie");
    Stage sums = s.partial.update();
    if (by_tiles)
        fetch_ahead(sums, weight, s.partial_tile, depth, "the depth of a matrix tile", matrix_tile_depth);
    else if (s.block_by_block)
        fetch_ahead(sums, weight, s.partial_block, depth, "block", block);
}

}  // namespace attune
