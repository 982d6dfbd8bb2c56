// SPDX-License-Identifier: MIT
#include "generators/transposed_dot/transposed_dot_stages.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

TransposedDotStages transposed_dot_stages(const TransposedDotInputs &in, const TransposedDotShape &shape) {
    TransposedDotStages s;
    const Var e = s.e, k = s.k, m = s.m, n = s.n, t = s.t, h = s.h, b = s.b;
    constexpr int count = TransposedDotStages::places;
    const int tile = shape.tile;
    const Type type = shape.type;
    s.tile = tile;
    const Type bits = UInt(in.a.type().bits());

    // As bits, so that neither NaN nor the sign of a zero is a special case. Past the end the last element counts again.
    RDom blocks(0, (in.rows + count - 1) / count, "place_block"), places(0, count, "place");
    s.place_block = blocks.x, s.place = places.x;
    s.place_bits = Func("place_bits");
    s.place_bits(e, k, h, b) = cast(bits, 0);
    s.place_bits(e, k, h, b) =
        s.place_bits(e, k, h, b) | (reinterpret(bits, in.a(min(blocks * count + e, in.rows - 1), k, h, b)) << cast(bits, 1));
    s.row_used = Func("row_used");
    s.row_used(k, h, b) = cast(bits, 0);
    s.row_used(k, h, b) = max(s.row_used(k, h, b), s.place_bits(places, k, h, b));

    s.left = Func("left");
    s.left(t, k, m, h, b) = cast(type, in.a(min(m * tile + t, in.rows - 1), min(k, in.depth - 1), h, b));
    Func rows("rows");
    rows(k, m, h, b) = s.left(m % tile, k, m / tile, h, b);
    LinearInputs product;
    product.x = rows;
    product.weight = [&](const Expr &n, const Expr &k, const Expr &h, const Expr &b) {
        return select(s.row_used(k, h, b) != 0, cast(type, in.x(n, k, h, b)), make_const(type, 0));
    };
    product.rows = in.rows, product.columns = in.columns, product.depth = in.depth;
    s.product = linear_panel_stages(product, {type, shape.depth_block, 0});
    s.out = Func("transposed_dot");
    s.out(n, m, h, b) = narrowed(in.a.type(), s.product.out(n, m, h, b));
    return s;
}

}  // namespace attune
