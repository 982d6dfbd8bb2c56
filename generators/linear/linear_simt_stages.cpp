// SPDX-License-Identifier: MIT
#include "generators/linear/linear_simt_stages.h"

namespace attune {
using namespace Halide;

LinearSimtStages linear_simt_stages(const LinearInputs &in, int tile_depth, const std::function<Expr(Expr)> &stored) {
    LinearSimtStages s;
    const Var n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    // A tile may reach beyond the last row or column, where its results are not stored. Beyond the depth both factors are 0.
    const Expr row = min(m, in.rows - 1), column = min(n, in.columns - 1), at = min(k, in.depth - 1);
    s.x_tile = Func("x_tile"), s.weight_tile = Func("weight_tile");
    s.x_tile(m, k, h, b) = select(k < in.depth, in.x(at, row, h, b), 0.0f);
    s.weight_tile(n, k) = select(k < in.depth, in.weight(column, at, Expr(0), Expr(0)), 0.0f);

    RDom depth(0, tile_depth, 0, (in.depth + tile_depth - 1) / tile_depth, "depth");
    s.tile_k = depth.x, s.tile = depth.y;
    const Expr term = depth.y * tile_depth + depth.x;
    s.product = Func("product");
    s.product(n, m, h, b) = in.bias(column);
    s.product(n, m, h, b) += s.x_tile(m, term, h, b) * s.weight_tile(n, term);
    s.out = Func("out_stage");
    s.out(n, m, h, b) = stored(s.product(n, m, h, b));
    return s;
}

}  // namespace attune
