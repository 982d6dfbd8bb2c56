// SPDX-License-Identifier: MIT
#include "generators/rows/transform_rows_backward_stages.h"
#include "generators/math/accumulator.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

RowGradient row_gradient(const std::string &name, const TransformRowsBackwardInputs &in, const RowSteps &steps, Type sums,
                         const RowVars &v) {
    RowGradient g;
    const Var d = v.d, t = v.t, h = v.h, b = v.b;
    RowSteps back = steps;
    back.sign = -1;
    g.mixed = Func(name + "_mixed");
    g.mixed(d, v.s, t, h, b) = undef(sums);
    g.mixed(d, 0, t, h, b) = cast(sums, in.grad_out(d, t, h, b));
    g.butterfly = mix_blocks(back, g.mixed, v, in.channels);
    g.turned = Func(name + "_turned");
    g.turned(d, t, h, b) = undef(sums);
    g.rope = rotate_pairs(
        back, g.turned, v, in.channels,
        [&](Expr at) {
            return std::vector<Expr>{at, t, h, b};
        },
        [&](Expr at) { return after_passes(back, g.mixed, v, at); });
    g.norm = row_norm(steps, v, in.x, sums, in.channels, name + "_squares");
    return g;
}

}  // namespace

TransformRowsBackwardStages transform_rows_backward_stages(const TransformRowsBackwardInputs &in, const RowSteps &steps) {
    TransformRowsBackwardStages s;
    const Type type = in.x.type(), sums = accumulator_of(type);
    const RowVars &v = s.vars;
    const Var d = v.d, t = v.t, h = v.h, b = v.b, n = s.n;
    s.weight = row_weight(steps, v, sums, in.channels, in.heads);
    s.of_x = row_gradient("of_x", in, steps, sums, v);
    s.of_weight = row_gradient("of_weight", in, steps, sums, v);

    // y = x r w with r = (mean(x^2) + eps)^(-1/2): dx = r (w dy - x r^2 sum(w dy x) / D).
    const auto x = [&](const Expr &at) { return cast(sums, in.x(at, t, h, b)); };
    const auto weighted = [&](const Expr &at) { return strict_float(s.of_x.turned(at, t, h, b) * s.weight.weight(at, h)); };
    s.dot = row_sum("dot", v, sums, in.channels, steps.has_norm, [&](Expr at) { return strict_float(weighted(at) * x(at)); });
    const Expr r = s.of_x.norm.factor(t, h, b);
    const Expr share = strict_float(r * (r * s.dot.sum / cast(sums, in.channels)));
    s.grad_x = Func("grad_x_stage");
    s.grad_x(d, t, h, b) =
        narrowed(type, strict_float(select(steps.has_norm, r * (weighted(d) - x(d) * share), s.of_x.turned(d, t, h, b))));

    RDom row(0, s.tile, "row");
    const Expr at = n * s.tile + row;
    row.where(at < in.rows);
    const Expr of_row = substitute(t.name(), min(at, in.rows - 1),
                                   strict_float(s.of_weight.turned(d, t, h, b) * (x(d) * s.of_weight.norm.factor(t, h, b))));
    s.tile_sum = Func("tile_sum");
    s.tile_sum(d, n, h, b) = make_const(sums, 0);
    s.tile_sum(d, n, h, b) = strict_float(s.tile_sum(d, n, h, b) + of_row);
    s.row = row;
    RDom all(0, (in.rows + s.tile - 1) / s.tile, 0, in.heads_of_weight, 0, in.batch, "tiles");
    s.grad_weight = Func("grad_weight_stage");
    s.grad_weight(d, h) = make_const(sums, 0);
    s.grad_weight(d, h) = strict_float(s.grad_weight(d, h) + s.tile_sum(d, all.x, h * in.heads_of_weight + all.y, all.z));
    s.all_tiles = all.x, s.all_heads = all.y, s.all_batches = all.z;
    return s;
}

}  // namespace attune
