#include "generators/max_magnitude/max_magnitude_stages.h"
#include <limits>

namespace attune {
using namespace Halide;

MaxMagnitudeStages max_magnitude_stages(const MaxMagnitudeInputs &in, int block, int rows_per_tile) {
    MaxMagnitudeStages m;
    const Var e = m.e, t = m.t, b = m.b;
    const Expr tiles = (in.rows + rows_per_tile - 1) / rows_per_tile;  // of a head
    RDom all(0, (in.channels + block - 1) / block, 0, rows_per_tile, "all");
    // Past the end of a row its last channel counts again. min() says once more what where() says, for the bounds.
    const Expr row = t % tiles * rows_per_tile + all.y;
    all.where(row < in.rows);
    const Expr d = min(likely(all.x * block + e), in.channels - 1), s = min(row, in.rows - 1);
    const Expr h = t / tiles % in.heads, entry = t / (tiles * in.heads);
    m.tile_max = Func("tile_max");
    m.tile_max(e, t) = 0;
    m.tile_max(e, t) = max(m.tile_max(e, t), reinterpret(Int(32), in.x(d, s, h, entry)) & std::numeric_limits<int32_t>::max());
    m.place_max = Func("place_max");
    m.place_max(e, t) = m.tile_max(e, t);

    RDom places(0, block, 0, tiles * in.heads, "places");
    m.batch_max = Func("batch_max");
    m.batch_max(b) = 0;
    m.batch_max(b) = max(m.batch_max(b), m.place_max(places.x, b * (tiles * in.heads) + places.y));

    const Expr infinity = reinterpret(Int(32), Internal::make_const(Float(32), std::numeric_limits<float>::infinity()));
    m.out = Func("out_stage");
    m.out(b) = reinterpret(Float(32), min(m.batch_max(b), infinity));
    m.block = all.x, m.row = all.y, m.place = places.x;
    return m;
}

}  // namespace attune
