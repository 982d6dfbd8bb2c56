// SPDX-License-Identifier: MIT
#include "generators/max_magnitude/max_magnitude_stages.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

MaxMagnitudeStages max_magnitude_stages(const MaxMagnitudeInputs &in, int block, int rows_per_tile) {
    MaxMagnitudeStages m;
    const Type type = in.x.type(), bits = Int(type.bits());
    const Expr zero = Internal::make_const(bits, 0);
    const Var e = m.e, t = m.t, b = m.b;
    const Expr tiles = (in.rows + rows_per_tile - 1) / rows_per_tile;  // of a head
    RDom all(0, (in.channels + block - 1) / block, 0, rows_per_tile, "all");
    // Past the end of a row its last channel counts again. min() repeats the condition of where() for the bounds.
    const Expr row = t % tiles * rows_per_tile + all.y;
    all.where(row < in.rows);
    const Expr d = min(likely(all.x * block + e), in.channels - 1), s = min(row, in.rows - 1);
    const Expr h = t / tiles % in.heads, entry = t / (tiles * in.heads);
    m.tile_max = Func("tile_max");
    m.tile_max(e, t) = zero;
    m.tile_max(e, t) = max(m.tile_max(e, t), magnitude_bits(in.x(d, s, h, entry)));
    m.place_max = Func("place_max");
    m.place_max(e, t) = m.tile_max(e, t);

    RDom places(0, block, 0, tiles * in.heads, "places");
    m.batch_max = Func("batch_max");
    m.batch_max(b) = zero;
    m.batch_max(b) = max(m.batch_max(b), m.place_max(places.x, b * (tiles * in.heads) + places.y));

    const int infinity = type.is_bfloat() ? 0x7f80 : type.bits() == 16 ? 0x7c00 : 0x7f800000;
    m.out = Func("out_stage");
    m.out(b) = cast<float>(reinterpret(type, min(m.batch_max(b), Internal::make_const(bits, infinity))));
    m.block = all.x, m.row = all.y, m.place = places.x;
    return m;
}

}  // namespace attune
