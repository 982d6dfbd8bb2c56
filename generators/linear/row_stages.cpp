// SPDX-License-Identifier: MIT
#include "generators/linear/row_stages.h"
#include "generators/linear/linear_parts.h"
#include "generators/math/bf16_bits.h"
#include <functional>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// The terms from begin to end, at most a depth block, in blocks within the depth: `sum` adds the terms r of the block at
// `place` that its conditions keep. The first block ends at the end of a cache line of the weight.
std::vector<BlockSum> sum_by_blocks(const Expr &begin, const Expr &end, const Expr &depth, const Expr &ahead,
                                    const LinearShape &shape, const std::function<void(const RDom &, const Expr &place)> &sum) {
    const int block = shape.block;
    std::vector<BlockSum> sums;
    auto place_of = [&](const Expr &at) { return clamp(at, 0, depth - block); };
    auto add = [&](const RDom &r, const Expr &place) {
        sum(r, place);
        sums.push_back({r.x, r.y});
    };
    auto part_of_block = [&](const std::string &name, const Expr &begin, const Expr &end) {
        RDom r(0, block, 0, 1, name);
        const Expr place = place_of(begin);
        r.where(begin < end);
        r.where(place + r.x >= begin);
        r.where(place + r.x < end);
        add(r, place);
    };
    const Expr first = min(begin + ahead % block, end), blocks = (end - first) / block, behind = first + blocks * block;
    part_of_block("block_before", begin, first);
    RDom r(0, block, 0, shape.depth_block / block, "blocks");
    r.where(r.y < blocks);
    add(r, place_of(first + r.y * block));
    part_of_block("block_behind", behind, end);
    return sums;
}

BlockTranspose transposed_weight(const LinearInputs &in, const LinearShape &shape, bool by_halves) {
    const LinearSums s;
    const Var t = s.t, h = s.h, b = s.b;
    return {"transpose",
            shape.block,
            {t, h, b},
            [&](Expr n, Expr k) { return cast(shape.type, in.weight(min(n, in.columns - 1), t + k, h, b)); },
            by_halves};
}

// The partial sums.
void add_block_sums(RowStages &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, c = s.c, h = s.h, b = s.b;
    const auto x = widened_rows(s, s.x_rows, in, shape);
    s.partial = Func("partial");
    s.partial(n, m, c, h, b) = make_const(shape.type, 0);
    const Expr begin = c * shape.depth_block, end = min(begin + shape.depth_block, in.depth);
    s.block_sums = sum_by_blocks(begin, end, in.depth, in.ahead, shape, [&](const RDom &r, const Expr &place) {
        s.partial(n, m, c, h, b) += x(place + r.x) * s.transpose(n, r.x, {place, h, b});
    });
}

// Sums of interleaved depth blocks. The rows of a block are those of all depth blocks of a column, then of the next column.
InterleavedRowStages::Group interleaved_blocks(const LinearInputs &in, const LinearShape &shape) {
    const LinearSums s;
    Var n = s.n, m = s.m, k = s.k, c = s.c, t = s.t, u = s.u, h = s.h, b = s.b;
    const int depth_block = shape.depth_block, depth_blocks = shape.interleaved_blocks;
    auto weight = [&](const Expr &row, const Expr &k) {
        const Expr column = min(row / depth_blocks, in.columns - 1);
        return cast(shape.type, in.weight(column, (c * depth_blocks + row % depth_blocks) * depth_block + t + k, h, b));
    };
    InterleavedRowStages::Group g{depth_blocks,
                                  {"interleaved", shape.block, {t, c, h, b}, weight},
                                  Func("x_interleaved"),
                                  Func("partial_interleaved"),
                                  {},
                                  {},
                                  {}};
    g.x(u, k, m, c, h, b) = cast(
        shape.type, element_of_row(s, in, unsafe_promise_clamped((c * depth_blocks + u) * depth_block + k, 0, in.depth - 1)));
    g.partial(u, n, m, c, h, b) = make_const(shape.type, 0);
    g.block_sums = sum_by_blocks(0, depth_block, depth_block, in.ahead, shape, [&](const RDom &r, const Expr &place) {
        g.partial(u, n, m, c, h, b) +=
            g.x(u, place + r.x, m, c, h, b) * g.transpose(n * depth_blocks + u, r.x, {place, c, h, b});
    });
    return g;
}

// The two elements of a pair of column n, as one word.
Expr pair_of_weight(const LinearSums &s, const LinearInputs &in, const Expr &n, const Expr &pair) {
    auto element = [&](const Expr &e) { return in.weight(min(n, in.columns - 1), pair * 2 + e, s.h, s.b); };
    return pair_of(element(0), element(1));
}

// The pair that a group from pair t on reads: in a whole group, and in the last one, which may be short.
Expr whole_group(const PairSums &s, const PairGroups &of) {
    return unsafe_promise_clamped(s.t, 0, of.pairs - of.accumulators) + s.u;
}
Expr rest_group(const PairSums &s, const PairGroups &of) { return min(s.t + s.u, of.pairs - 1); }

Func words_of_group(const PairSums &s, const LinearInputs &in, const std::string &name, const Expr &pair) {
    Func words(name);
    words(s.u, s.n, s.t, s.h, s.b) = pair_of_weight(s, in, s.n, pair);
    return words;
}

PairGroup group_of_pairs(const PairSums &s, const LinearInputs &in, const std::string &name, const Expr &pair) {
    PairGroup group{words_of_group(s, in, name, pair), Func(name + "_panel")};
    group.panel(s.e, s.u, s.n, s.t, s.h, s.b) = element_of_pair(group.words(s.u, s.n, s.t, s.h, s.b), s.e);
    return group;
}

Bf16DotLineStages::Lines lines_of_pairs(const LinearInputs &in, const LinearShape &shape, const std::string &name) {
    const LinearSums s;
    const Var e = s.e, u = s.u, n = s.n, k = s.k, t = s.t, h = s.h, b = s.b;
    auto of_line = [&](const Expr &n, const Expr &k) {
        return pair_of_weight(s, in, n, unsafe_promise_clamped(t, 0, in.depth / 2 - shape.block) + k);
    };
    Bf16DotLineStages::Lines lines{
        {name, shape.block, {t, h, b}, of_line, false, shape.accumulators}, Func(name + "_panel"), {}, {}, {}};
    lines.panel(e, u, n, k, t, h, b) = element_of_pair(lines.transpose(n, k * shape.accumulators + u, {t, h, b}), e);
    return lines;
}

// Sums of whole depth blocks, in groups of `depth_blocks`.
Bf16DotLineStages::WholeDepthBlocks whole_depth_blocks(const PairSums &s, const LinearInputs &in, const LinearShape &shape,
                                                       int depth_blocks) {
    const Var u = s.u, n = s.n, m = s.m, a = s.a, c = s.c, h = s.h, b = s.b;
    const int groups_of_line = shape.block / shape.accumulators;
    Bf16DotLineStages::WholeDepthBlocks whole{
        depth_blocks, Func("whole_partial"), lines_of_pairs(in, shape, "whole_line"), {}, {}, {}};
    const RDom r(0, 2, 0, groups_of_line, 0, shape.depth_block / 2 / shape.block, "whole_lines");
    whole.lines.pair = r.x, whole.lines.group = r.y, whole.lines.line = r.z;
    const Expr line = (c * depth_blocks + a) * (shape.depth_block / 2) + r.z * shape.block;
    const Expr pair = line + r.y * shape.accumulators + u;
    const Expr x = element_of_row(s, in, unsafe_promise_clamped(pair * 2 + r.x, 0, in.depth - 1));
    whole.partial(u, n, m, a, c, h, b) = make_const(shape.type, 0);
    whole.partial(u, n, m, a, c, h, b) += cast(shape.type, x) * cast(shape.type, whole.lines.panel(r.x, u, n, r.y, line, h, b));
    return whole;
}

// Adds the partials of whole depth blocks, from depth block `first` on; returns the first depth block behind them.
Expr add_whole_depth_blocks(LinearSums &s, Bf16DotLineStages::WholeDepthBlocks &whole, const LinearInputs &in,
                            const LinearShape &shape, const Expr &first) {
    const Var n = s.n, m = s.m, h = s.h, b = s.b;
    const Expr end = in.depth / (whole.depth_blocks * shape.depth_block), begin = first / whole.depth_blocks;
    const RDom r(0, shape.accumulators, 0, whole.depth_blocks, begin, end - begin, "whole_depth_block");
    whole.product_accumulator = r.x, whole.product_depth_block = r.y, whole.product_group = r.z;
    // Strict: sums of all accumulators in one expression would be added in another order.
    s.product(n, m, h, b) = strict_float(s.product(n, m, h, b) + whole.partial(r.x, n, m, r.y, r.z, h, b));
    return end * whole.depth_blocks;
}

// A pair of a whole group. Without a promise about its place: Halide drops promises after it has looked for ramps, and would
// gather the elements of neighbouring pairs one by one. The promise about the group bounds it.
PairTerm in_whole_group(const PairSums &s, const LinearShape &shape, const Expr &element, const Expr &group) {
    return {element, group, group * shape.accumulators + s.u};
}

// Adds a pair to partial, from the elements of its weights.
void add_bf16_dot(Bf16DotRowStages &s, const LinearInputs &in, const LinearShape &shape, const PairTerm &term,
                  const Expr &weight) {
    const Expr x = element_of_row(s, in, term.pair * 2 + term.element);
    s.partial(s.u, s.n, s.m, s.c, s.h, s.b) += cast(shape.type, term(x)) * cast(shape.type, term(weight));
}

// The groups of pairs of a depth block, without the first in_lines if that is given, as these are summed already.
void add_bf16_dot_groups(Bf16DotRowStages &s, const LinearInputs &in, const LinearShape &shape, const PairGroups &of,
                         const Expr &in_lines = {}) {
    auto add_of = [&](const PairGroup &group, const PairTerm &term) {
        add_bf16_dot(s, in, shape, term, group.panel(term.element, s.u, s.n, term.group * shape.accumulators, s.h, s.b));
    };
    add_pairs(
        s, of, [&](const PairTerm &term) { add_of(s.group, in_whole_group(s, shape, term.element, term.group)); },
        [&](const PairTerm &term) { add_of(s.rest, term); }, in_lines);
}

void define_groups(Bf16DotRowStages &s, const LinearInputs &in, const PairGroups &of) {
    s.group = group_of_pairs(s, in, "group", whole_group(s, of)), s.rest = group_of_pairs(s, in, "rest", rest_group(s, of));
}

void start_partial(PairSums &s, const LinearShape &shape) {
    s.partial = Func("partial");
    s.partial(s.u, s.n, s.m, s.c, s.h, s.b) = make_const(shape.type, 0);
}

}  // namespace

RowStages linear_row_stages(const LinearInputs &in, const LinearShape &shape) {
    RowStages s{{}, transposed_weight(in, shape, read_by_halves(in)), {}, {}};
    add_block_sums(s, in, shape);
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

InterleavedRowStages linear_interleaved_row_stages(const LinearInputs &in, const LinearShape &shape) {
    InterleavedRowStages::Group group = interleaved_blocks(in, shape);
    // Beside groups of depth blocks, whose rows are read whole, LLVM would keep halves in memory.
    InterleavedRowStages s{{{}, transposed_weight(in, shape, false), {}, {}}, group};
    const Var n = s.n, m = s.m, h = s.h, b = s.b;
    const int depth_blocks = shape.interleaved_blocks;
    add_block_sums(s, in, shape);
    start_product(s, in, shape);
    const Expr groups = in.depth / (depth_blocks * shape.depth_block);
    const RDom r(0, depth_blocks, 0, groups, "product_group");
    s.group.product_depth_block = r.x, s.group.product_group = r.y;
    s.product(n, m, h, b) += s.group.partial(r.x, n, m, r.y, h, b);
    add_partials(s, in, shape, groups * depth_blocks);
    add_output(s, in);
    return s;
}

WidenedRowStages linear_widened_row_stages(const LinearInputs &in, const LinearShape &shape) {
    WidenedRowStages s;
    Var e = s.e, n = s.n, m = s.m, k = s.k, c = s.c, u = s.u, h = s.h, b = s.b;
    const PairGroups of(s, in, shape);
    // The two elements of pairs apart, so that the elements of all accumulators are neighbours.
    auto x = [&](const Expr &e) { return element_of_row(s, in, min(likely(k), of.pairs - 1) * 2 + e); };
    s.x_rows = Func("x_rows"), s.x_rows(k, e, m, h, b) = cast(shape.type, element_of_pair(pair_of(x(0), x(1)), e));
    s.group = words_of_group(s, in, "group", whole_group(s, of)),
    s.rest_group = words_of_group(s, in, "rest", rest_group(s, of));
    start_partial(s, shape);
    auto add_of = [&](const Func &group) {
        return [&, group](const PairTerm &term) {
            const Expr w = element_of_pair(group(u, n, term.group * shape.accumulators, h, b), term.element);
            s.partial(u, n, m, c, h, b) += term(s.x_rows(term.pair, term.element, m, h, b)) * term(cast(shape.type, w));
        };
    };
    add_pairs(s, of, add_of(s.group), add_of(s.rest_group));
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

Bf16DotRowStages linear_bf16_dot_row_stages(const LinearInputs &in, const LinearShape &shape) {
    Bf16DotRowStages s;
    const PairGroups of(s, in, shape);
    define_groups(s, in, of);
    start_partial(s, shape);
    add_bf16_dot_groups(s, in, shape, of);
    start_product(s, in, shape);
    add_partials(s, in, shape);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

Bf16DotLineStages linear_bf16_dot_line_stages(const LinearInputs &in, const LinearShape &shape) {
    Bf16DotLineStages s{{}, lines_of_pairs(in, shape, "line"), {}};
    const PairGroups of(s, in, shape);
    define_groups(s, in, of);
    if (shape.interleaved_blocks > 1)
        s.whole_depth_blocks.push_back(whole_depth_blocks(s, in, shape, shape.interleaved_blocks));
    s.whole_depth_blocks.push_back(whole_depth_blocks(s, in, shape, 1));
    start_partial(s, shape);

    const int groups_of_line = shape.block / shape.accumulators;
    RDom r(0, 2, 0, groups_of_line, 0, of.groups / groups_of_line, "lines");
    const Expr line = of.first / groups_of_line + r.z, lines = of.whole / groups_of_line;
    r.where(line < lines);
    s.lines.pair = r.x, s.lines.group = r.y, s.lines.line = r.z;
    const Expr at = unsafe_promise_clamped(line, 0, max(lines - 1, 0)), group = at * groups_of_line + r.y;
    add_bf16_dot(s, in, shape, in_whole_group(s, shape, r.x, group),
                 s.lines.panel(r.x, s.u, s.n, r.y, at * shape.block, s.h, s.b));
    add_bf16_dot_groups(s, in, shape, of, min(of.groups, max(lines * groups_of_line - of.first, 0)));

    start_product(s, in, shape);
    Expr first = 0;
    for (Bf16DotLineStages::WholeDepthBlocks &whole : s.whole_depth_blocks)
        first = add_whole_depth_blocks(s, whole, in, shape, first);
    add_partials(s, in, shape, first);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

}  // namespace attune
