// SPDX-License-Identifier: MIT
#include "generators/linear/linear_parts.h"
#include "generators/linear/packed_panels.h"
#include "generators/math/narrowed.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

Expr element_of_row(const LinearSums &s, const LinearInputs &in, const Expr &k) {
    return in.x(k, min(s.m, in.rows - 1), s.h, s.b);
}

std::function<Expr(Expr)> widened_rows(const LinearSums &s, Func &x_rows, const LinearInputs &in, const LinearShape &shape) {
    const Var k = s.k, m = s.m, h = s.h, b = s.b;
    if (in.x.type() == shape.type) return [s, in](const Expr &k) { return element_of_row(s, in, k); };
    x_rows = Func("x_rows");
    x_rows(k, m, h, b) = cast(shape.type, element_of_row(s, in, min(likely(k), in.depth - 1)));
    return [=](const Expr &k) { return x_rows(k, m, h, b); };
}

Expr depth_blocks_of(const LinearInputs &in, const LinearShape &shape) {
    return (in.depth + shape.depth_block - 1) / shape.depth_block;
}

void start_product(LinearSums &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    s.start = Func("start");
    s.start(n) = in.bias.defined() ? cast(shape.type, in.bias(min(n, in.columns - 1))) : make_const(shape.type, 0);
    s.product = Func("product");
    s.product(n, m, h, b) = s.start(n);
}

static void add_partial(LinearSums &s, const Expr &depth_block, const Expr &accumulator) {
    const std::vector<Var> dims = s.partial.args();
    const bool of_panels = std::any_of(dims.begin(), dims.end(), [&](const Var &v) { return v.same_as(s.p); });
    std::vector<Expr> at;
    for (const Var &v : dims)
        at.push_back(v.same_as(s.c)                ? depth_block
                     : v.same_as(s.u)              ? accumulator
                     : v.same_as(s.p)              ? s.n / PackedPanels::columns
                     : of_panels && v.same_as(s.n) ? s.n % PackedPanels::columns
                                                   : Expr(v));
    s.product(s.n, s.m, s.h, s.b) += s.partial(at);
}

void add_partials(LinearSums &s, const LinearInputs &in, const LinearShape &shape, const Expr &first) {
    const RDom r(0, depth_blocks_of(in, shape) - first, "product_depth_block");
    s.product_depth_block = r.x;
    add_partial(s, first + r.x, 0);
}

void add_partials(PairSums &s, const LinearInputs &in, const LinearShape &shape, const Expr &first, bool but_the_last) {
    if (shape.accumulators == 1) return add_partials(static_cast<LinearSums &>(s), in, shape, first);
    const Expr depth_blocks = depth_blocks_of(in, shape) - first;
    RDom r(0, shape.accumulators, 0, depth_blocks, "product_depth_block");
    if (but_the_last) r.where(r.y * shape.accumulators + r.x < depth_blocks * shape.accumulators - 1);
    s.product_accumulator = r.x, s.product_depth_block = r.y;
    add_partial(s, first + r.y, r.x);
}

void add_odd(PairSums &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    RDom odd(0, 1, "odd");
    odd.where(in.depth % 2 == 1);
    s.odd = odd.x;
    Expr last = in.depth - 1 + odd;
    s.product(n, m, h, b) +=
        cast(shape.type, element_of_row(s, in, last)) * cast(shape.type, in.weight(min(n, in.columns - 1), last, h, b));
}

void add_output(LinearSums &s, const LinearInputs &in, const Expr &last) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    const Expr sum = s.product(n, m, h, b);
    s.out = Func("out_stage");
    s.out(n, m, h, b) = narrowed(in.x.type(), last.defined() ? sum + last : sum);
}

Expr PairTerm::operator()(const Expr &x) const { return within.defined() ? select(within, x, make_const(x.type(), 0)) : x; }

PairGroups::PairGroups(const PairSums &s, const LinearInputs &in, const LinearShape &shape)
    : accumulators(shape.accumulators), groups(shape.depth_block / 2 / accumulators), pairs(in.depth / 2),
      whole(pairs / accumulators), first(s.c * groups), last_pair(max(pairs - 1, 0)), u(s.u) {}

Expr PairGroups::pair_of(const Expr &group) const { return unsafe_promise_clamped(group * accumulators + u, 0, last_pair); }

void add_pairs(PairSums &s, const PairGroups &of, const AddPair &add, const AddPair &add_rest, const Expr &in_lines) {
    RDom r(0, 2, 0, of.groups, "partial_k");
    r.where(of.first + r.y < of.whole);
    if (in_lines.defined()) r.where(r.y >= in_lines);
    s.pair = r.x, s.partial_k = r.y;
    const Expr group = unsafe_promise_clamped(of.first + r.y, 0, max(of.whole - 1, 0));
    add({r.x, group, of.pair_of(group)});
    if (of.accumulators == 1) return;
    RDom rest(0, 2, 0, 1, "rest");
    rest.where(of.whole * of.accumulators < of.pairs);
    rest.where(of.whole / of.groups == s.c);
    s.rest_pair = rest.x;
    // Clamped twice, so that a panel of all depth blocks is no deeper than all of them.
    const Expr last = of.last_pair / of.accumulators, in_depth_block = of.first + clamp(last - of.first, 0, of.groups - 1);
    const Expr last_group = unsafe_promise_clamped(in_depth_block, 0, last), pair = last_group * of.accumulators + of.u;
    add_rest({rest.x, last_group, min(pair, of.last_pair), pair < of.pairs});
}

}  // namespace attune
