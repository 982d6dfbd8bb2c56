// SPDX-License-Identifier: MIT
#include "generators/linear/panel_stages.h"
#include "generators/linear/linear_parts.h"
#include "generators/math/bf16_bits.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Element (n, k) of the weight, widened. Beyond the last column or depth another element is read, and never stored.
std::function<Expr(Expr, Expr)> widened_weight(const LinearSums &s, const LinearInputs &in, const LinearShape &shape) {
    const Var h = s.h, b = s.b;
    if (in.as_it_lies) return [=](const Expr &n, const Expr &k) { return cast(shape.type, in.weight(n, k, h, b)); };
    return [=](const Expr &n, const Expr &k) {
        return cast(shape.type, in.weight(min(n, in.columns - 1), min(k, in.depth - 1), h, b));
    };
}

// A panel of widened weights, transposed in blocks if `block` is set.
template<typename Stages> void add_panel(Stages &s, const LinearInputs &in, const LinearShape &shape) {
    const Var n = s.n, k = s.k, h = s.h, b = s.b;
    const auto weight = widened_weight(s, in, shape);
    s.panel = Func("panel");
    if (shape.block) {
        s.transpose.emplace("transpose", shape.block, std::vector<Var>{}, weight, read_by_halves(in));
        s.panel(n, k, h, b) = (*s.transpose)(n, k, {});
    } else {
        s.panel(n, k, h, b) = weight(n, k);
    }
}

}  // namespace

PanelStages linear_panel_stages(const LinearInputs &in, const LinearShape &shape) {
    PanelStages s;
    Var n = s.n, m = s.m, c = s.c, h = s.h, b = s.b;
    // Once for all rows, pairs are split and reads beyond an end are clamped.
    const bool panel = !in.read_once && (!in.as_it_lies || in.x.type().is_bfloat());
    if (panel) add_panel(s, in, shape);
    const auto weight = widened_weight(s, in, shape);
    const auto x = widened_rows(s, s.x_rows, in, shape);

    RDom r(0, shape.depth_block, "partial_k");
    const Expr first = c * shape.depth_block;
    r.where(first + 0 + r.x < in.depth);
    s.partial_k = r.x;
    const Expr k = unsafe_promise_clamped(first + (0 + r.x), 0, in.depth - 1);
    s.partial = Func("partial");
    s.partial(n, m, c, h, b) = make_const(shape.type, 0);
    s.partial(n, m, c, h, b) += x(k) * (panel ? s.panel(n, k, h, b) : weight(n, k));
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

RankKStages linear_rank_k_stages(const LinearInputs &in, const LinearShape &shape) {
    RankKStages s;
    Var n = s.n, m = s.m, c = s.c, h = s.h, b = s.b;
    const auto weight = widened_weight(s, in, shape);
    const auto x = widened_rows(s, s.x_rows, in, shape);
    s.partial = Func("partial");
    s.partial(n, m, c, h, b) = make_const(shape.type, 0);
    const int depth = shape.update_depth;
    const Expr first = c * shape.depth_block, end = min(in.depth, first + shape.depth_block),
               in_updates = (end - first) / depth * depth;
    auto add = [&](const Expr &term) {
        const Expr k = unsafe_promise_clamped(first + term, 0, in.depth - 1);
        s.partial(n, m, c, h, b) += x(k) * weight(n, k);
    };
    RDom updates(0, depth, 0, shape.depth_block / depth, "rank_k_updates");
    updates.where(updates.y * depth < in_updates);
    s.term = updates.x, s.rank_k_update = updates.y;
    add(updates.y * depth + updates.x);
    RDom rest(0, depth - 1, "partial_k");
    rest.where(first + in_updates + rest.x < end);
    s.partial_k = rest.x;
    add(in_updates + rest.x);
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

WidenedPanelStages linear_widened_panel_stages(const LinearInputs &in, const LinearShape &shape) {
    WidenedPanelStages s;
    Var n = s.n, m = s.m, u = s.u, c = s.c, h = s.h, b = s.b;
    add_panel(s, in, shape);
    const auto x = widened_rows(s, s.x_rows, in, shape);
    s.partial = Func("partial");
    s.partial(n, m, u, c, h, b) = make_const(shape.type, 0);
    auto add = [&](const PairTerm &term) {
        const Expr k = term.pair * 2 + term.element;
        s.partial(n, m, u, c, h, b) += term(x(k)) * term(s.panel(n, k, h, b));
    };
    add_pairs(s, {s, in, shape}, add, add);
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

// The panel and the partial sums.
static void add_bf16_dot_sums(Bf16DotPanelStages &s, const LinearInputs &in, const LinearShape &shape) {
    Var e = s.e, n = s.n, m = s.m, k = s.k, u = s.u, c = s.c, h = s.h, b = s.b;
    // Clamped as one number, which is then a ramp of elements: a block within the depth is read row by row.
    auto weight = [&](Expr e, Expr n, Expr k) { return in.weight(min(n, in.columns - 1), min(k * 2 + e, in.depth - 1), h, b); };
    if (!in.as_it_lies) s.panel = Func("panel");
    if (shape.block) {
        s.transpose.emplace("transpose", shape.block, std::vector<Var>{},
                            [&](Expr n, Expr k) { return pair_of(weight(0, n, k), weight(1, n, k)); });
        s.panel(e, n, k, u, h, b) = element_of_pair((*s.transpose)(n, k * shape.accumulators + u, {}), e);
    } else if (!in.as_it_lies) {
        s.panel(e, n, k, u, h, b) = weight(e, n, k * shape.accumulators + u);
    }

    s.partial = Func("partial");
    s.partial(n, m, u, c, h, b) = make_const(shape.type, 0);
    auto add = [&](const PairTerm &term) {
        const Expr k = term.pair * 2 + term.element;
        const Expr w = in.as_it_lies ? in.weight(n, k, h, b) : s.panel(term.element, n, term.group, u, h, b);
        s.partial(n, m, u, c, h, b) += cast(shape.type, term(element_of_row(s, in, k))) * cast(shape.type, term(w));
    };
    add_pairs(s, {s, in, shape}, add, add);
    start_product(s, in, shape);
}

Bf16DotPanelStages linear_bf16_dot_panel_stages(const LinearInputs &in, const LinearShape &shape) {
    Bf16DotPanelStages s;
    add_bf16_dot_sums(s, in, shape);
    add_partials(s, in, shape);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

Bf16DotEpilogueStages linear_bf16_dot_epilogue_stages(const LinearInputs &in, const LinearShape &shape) {
    Bf16DotEpilogueStages s;
    add_bf16_dot_sums(s, in, shape);
    add_partials(s, in, shape, 0, true);
    add_output(s, in, s.partial(s.n, s.m, shape.accumulators - 1, depth_blocks_of(in, shape) - 1, s.h, s.b));
    return s;
}

}  // namespace attune
