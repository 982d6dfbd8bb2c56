// SPDX-License-Identifier: MIT
#include "generators/linear/amx_stages.h"
#include "generators/linear/linear_parts.h"
#include "generators/math/bf16_bits.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

// Number of an AMX tile along the depth, of depth block c: its loops are partial_k, the terms of a tile, and partial_tile. No
// tile is behind the last one, which Halide 21 does not see: it bounds the two terms of the number separately.
template<typename Stages>
static Expr tile_along_depth(Stages &s, const LinearInputs &in, const LinearShape &shape, int depth_of_tile) {
    const int steps = shape.depth_block / depth_of_tile;
    RDom r(0, depth_of_tile, 0, steps, "partial_k");
    r.where((s.c * steps + r.y) * depth_of_tile < in.depth);
    s.partial_k = r.x, s.partial_tile = r.y;
    return min(s.c * steps + r.y, (in.depth - 1) / depth_of_tile);
}

// Pairs of the weight, with zeros behind the depth.
static void lay_pairs(AmxStages &s, const LinearInputs &in, const LinearShape &shape) {
    const Var e = s.e, n = s.n, k = s.k, h = s.h, b = s.b;
    const Expr zero = bfloat16_t(0.0f), pairs = (in.depth + 1) / 2;
    s.panel = Func("panel");
    if (in.as_it_lies) {
        s.panel(e, n, k, h, b) = select(k < pairs, in.weight(n, min(k, pairs - 1) * 2 + e, h, b), zero);
        return;
    }
    auto weight = [&](Expr n, Expr k) {
        return select(k < in.depth, in.weight(min(n, in.columns - 1), min(k, in.depth - 1), h, b), zero);
    };
    if (shape.block == 0) {
        s.panel(e, n, k, h, b) = weight(n, k * 2 + e);
        return;
    }
    s.transpose.emplace("transpose", shape.block, std::vector<Var>{},
                        [&](Expr n, Expr k) { return pair_of(weight(n, k * 2), weight(n, k * 2 + 1)); });
    s.panel(e, n, k, h, b) = element_of_pair((*s.transpose)(n, k, {}), e);
}

AmxStages linear_amx_stages(const LinearInputs &in, const LinearShape &shape, int depth_of_tile) {
    AmxStages s;
    Var n = s.n, m = s.m, k = s.k, c = s.c, h = s.h, b = s.b;
    const Expr zero = bfloat16_t(0.0f), last = in.depth - 1;
    s.x_rows = Func("x_rows");
    s.x_rows(k, m, h, b) = select(k < in.depth, element_of_row(s, in, min(k, last)), zero);
    const Expr tile = tile_along_depth(s, in, shape, depth_of_tile), term = s.partial_k;
    const Expr of_x = cast(shape.type, s.x_rows(tile * depth_of_tile + term, m, h, b));
    const Expr e = term % 2, pair = tile * (depth_of_tile / 2) + term / 2;
    s.partial = Func("partial");
    if (in.pair_of_panel) {
        const Var p = s.p;
        s.partial(n, m, p, c, h, b) = make_const(shape.type, 0);
        s.partial(n, m, p, c, h, b) += of_x * cast(shape.type, in.pair_of_panel(e, n, pair, p));
    } else {
        lay_pairs(s, in, shape);
        s.partial(n, m, c, h, b) = make_const(shape.type, 0);
        s.partial(n, m, c, h, b) += of_x * cast(shape.type, s.panel(e, n, pair, h, b));
    }
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

static BlockTranspose transposed_rows(const LinearInputs &in, const LinearShape &shape) {
    const LinearSums s;
    const Var h = s.h, b = s.b;
    const Expr zero = bfloat16_t(0.0f), last = in.depth - 1;
    auto x = [&](Expr m, Expr k) { return select(k < in.depth, in.x(min(k, last), min(m, in.rows - 1), h, b), zero); };
    return {"transpose", shape.block, {h, b}, [&](Expr m, Expr k) { return pair_of(x(m, k * 2), x(m, k * 2 + 1)); }};
}

AmxWeightStages linear_amx_weight_stages(const LinearInputs &in, const LinearShape &shape, int depth_of_tile) {
    AmxWeightStages s{{}, transposed_rows(in, shape), {}, {}, {}};
    Var e = s.e, n = s.n, m = s.m, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
    const Expr zero = bfloat16_t(0.0f), last = in.depth - 1;
    s.x_pairs = Func("x_pairs");
    s.x_pairs(e, m, k, h, b) = element_of_pair(s.transpose(m, k, {h, b}), e);
    if (!in.as_it_lies) {
        const Expr place = t * depth_of_tile + k;
        s.panel = Func("panel");
        s.panel(k, n, t, h, b) = select(place < in.depth, in.weight(min(n, in.columns - 1), min(place, last), h, b), zero);
    }

    const Expr tile = tile_along_depth(s, in, shape, depth_of_tile), term = s.partial_k;
    s.partial = Func("partial");
    s.partial(m, n, c, h, b) = make_const(shape.type, 0);
    const Expr weight = in.as_it_lies ? in.weight(n, tile * depth_of_tile + term, h, b) : s.panel(term, n, tile, h, b);
    s.partial(m, n, c, h, b) +=
        cast(shape.type, weight) * cast(shape.type, s.x_pairs(term % 2, m, tile * (depth_of_tile / 2) + term / 2, h, b));
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

}  // namespace attune
