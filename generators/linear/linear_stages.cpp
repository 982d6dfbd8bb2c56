#include "generators/linear/linear_stages.h"
#include "generators/linear/linear_parts.h"
#include "generators/math/bf16_bits.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

Expr element_of_row(const LinearStages &s, const LinearInputs &in, const Expr &k) {
    return in.x(k, min(s.m, in.rows - 1), s.h, s.b);
}

static Expr chunks_of(const LinearInputs &in, const LinearShape &shape) { return (in.depth + shape.chunk - 1) / shape.chunk; }

void add_partials(LinearStages &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    s.start = Func("start");
    s.start(n) = in.bias.defined() ? cast(shape.type, in.bias(min(n, in.columns - 1))) : make_const(shape.type, 0);
    Expr first = 0;
    s.product = Func("product");
    s.product(n, m, h, b) = s.start(n);
    if (s.abreast) {
        const Expr groups = in.depth / (s.abreast->chunks * shape.chunk);
        const RDom r(0, s.abreast->chunks, 0, groups, "product_group");
        s.abreast->product_chunk = r.x, s.abreast->product_group = r.y;
        s.product(n, m, h, b) += s.abreast->partial(r.x, n, m, r.y, h, b);
        first = groups * s.abreast->chunks;
    }
    for (LinearStages::WholeChunks &whole : s.whole_chunks) {
        const Expr end = in.depth / (whole.chunks * shape.chunk), begin = first / whole.chunks;
        const RDom r(0, shape.strands, 0, whole.chunks, begin, end - begin, "whole_chunk");
        whole.product_strand = r.x, whole.product_chunk = r.y, whole.product_group = r.z;
        // Strict, since sums of all strands in one expression would be added in another order.
        s.product(n, m, h, b) = strict_float(s.product(n, m, h, b) + whole.partial(r.x, n, m, r.y, r.z, h, b));
        first = end * whole.chunks;
    }
    const Expr chunks = chunks_of(in, shape) - first;
    const bool in_strands = shape.strands > 1;
    RDom r = in_strands ? RDom(0, shape.strands, 0, chunks, "product_chunk") : RDom(0, chunks, "product_chunk");
    if (shape.last_apart) r.where(r.y * shape.strands + r.x < chunks * shape.strands - 1);
    s.product_chunk = in_strands ? r.y : r.x;
    const Expr strand = in_strands ? Expr(r.x) : Expr(0);
    if (in_strands) s.product_strand = r.x;
    std::vector<Expr> at;
    for (const Var &v : s.partial.args())
        at.push_back(v.same_as(s.c) ? first + s.product_chunk : v.same_as(s.u) ? strand : Expr(v));
    s.product(n, m, h, b) += s.partial(at);
}

void add_output(LinearStages &s, const LinearInputs &in, const Expr &last) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    const Expr sum = s.product(n, m, h, b);
    s.out = Func("out_stage");
    s.out(n, m, h, b) = narrowed(in.x.type(), last.defined() ? sum + last : sum);
}

namespace {

// element_of_row() for sums: widened once for all columns where x is of another type.
std::function<Expr(Expr)> widened_rows(LinearStages &s, const LinearInputs &in, const LinearShape &shape) {
    if (in.x.type() == shape.type) return [&](const Expr &k) { return element_of_row(s, in, k); };
    s.x_rows = Func("x_rows");
    s.x_rows(s.k, s.m, s.h, s.b) = cast(shape.type, element_of_row(s, in, min(likely(s.k), in.depth - 1)));
    return [&](const Expr &k) { return s.x_rows(k, s.m, s.h, s.b); };
}

// How blocks of weights are read; not f16, whose conversion takes as long for half a row as for one.
bool read_by_halves(const LinearInputs &in) { return in.x.type() != Float(16); }

// An element of a pair, as the sum of its strand reads it. A group has a pair for each strand.
struct PairTerm {
    Expr element, group, pair;
    Expr within = {};                    // defined for the last group alone, which may lack pairs
    Expr line = {}, group_of_line = {};  // defined for groups of a whole line
    Expr operator()(const Expr &x) const { return within.defined() ? select(within, x, make_const(x.type(), 0)) : x; }
};
// The sums of strand u of chunk c. The pairs that the last group lacks are zeros, so that strands are summed side by side there,
// too; it makes a sum of its own, so that no other group is looked at. So do the groups of whole lines of so many.
void add_pairs(LinearStages &s, const LinearInputs &in, const LinearShape &shape, int groups_of_line,
               const std::function<void(const PairTerm &)> &add) {
    const int strands = shape.strands, groups = shape.chunk / 2 / strands;
    const Expr pairs = in.depth / 2, whole = pairs / strands, first = s.c * groups, last_pair = max(pairs - 1, 0);
    auto pair_of_group = [&](const Expr &group) { return unsafe_promise_clamped(group * strands + s.u, 0, last_pair); };
    Expr in_lines = 0;  // the groups in front that are those of whole lines
    if (groups_of_line > 1) {
        RDom r(0, 2, 0, groups_of_line, 0, groups / groups_of_line, "lines");
        const Expr line = first / groups_of_line + r.z, lines = whole / groups_of_line;
        r.where(line < lines);
        s.lines->pair = r.x, s.lines->group = r.y, s.lines->line = r.z;
        const Expr at = unsafe_promise_clamped(line, 0, max(lines - 1, 0)), group = at * groups_of_line + r.y;
        add({r.x, group, pair_of_group(group), {}, at, r.y});
        in_lines = min(groups, max(lines * groups_of_line - first, 0));
    }
    RDom r(0, 2, 0, groups, "partial_k");
    r.where(first + r.y < whole);
    if (groups_of_line > 1) r.where(r.y >= in_lines);
    s.in_pairs = true, s.pair = r.x, s.partial_k = r.y;
    const Expr group = unsafe_promise_clamped(first + r.y, 0, max(whole - 1, 0));
    add({r.x, group, pair_of_group(group)});
    if (strands == 1) return;
    RDom rest(0, 2, 0, 1, "rest");
    rest.where(whole * strands < pairs);
    rest.where(whole / groups == s.c);
    s.rest_pair = rest.x, s.in_strands = true;
    // Twice clamped, so that a panel of all chunks is no deeper than they are.
    const Expr last = last_pair / strands, in_chunk = first + clamp(last - first, 0, groups - 1);
    const Expr last_group = unsafe_promise_clamped(in_chunk, 0, last), pair = last_group * strands + s.u;
    add({rest.x, last_group, min(pair, last_pair), pair < pairs});
}

// The last product of an odd depth, of which there is no pair.
void add_odd(LinearStages &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, h = s.h, b = s.b;
    RDom odd(0, 1, "odd");
    odd.where(in.depth % 2 == 1);
    s.odd = odd.x;
    Expr last = in.depth - 1 + odd;
    s.product(n, m, h, b) +=
        cast(shape.type, element_of_row(s, in, last)) * cast(shape.type, in.weight(min(n, in.columns - 1), last, h, b));
}

// The terms from begin to end, of which there are as many as a chunk has at most, in blocks that lie within the depth: `sum` adds,
// of the block at `place`, those terms of r that are wanted. The first block ends where a cache line of the weight does.
std::vector<LinearStages::BlockSum> sum_by_blocks(const Expr &begin, const Expr &end, const Expr &depth, const Expr &ahead,
                                                  const LinearShape &shape,
                                                  const std::function<void(const RDom &, const Expr &place)> &sum) {
    const int block = shape.block;
    std::vector<LinearStages::BlockSum> sums;
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
    RDom r(0, block, 0, shape.chunk / block, "blocks");
    r.where(r.y < blocks);
    add(r, place_of(first + r.y * block));
    part_of_block("block_behind", behind, end);
    return sums;
}

// The sums of chunks side by side. The rows of a block are those of all chunks of a column, then of the next column.
void add_abreast(LinearStages &s, const LinearInputs &in, const LinearShape &shape) {
    Var n = s.n, m = s.m, k = s.k, c = s.c, t = s.t, u = s.u, h = s.h, b = s.b;
    const int chunk = shape.chunk, chunks = shape.abreast;
    auto weight = [&](const Expr &row, const Expr &k) {
        const Expr column = min(row / chunks, in.columns - 1);
        return cast(shape.type, in.weight(column, (c * chunks + row % chunks) * chunk + t + k, h, b));
    };
    s.abreast.emplace(LinearStages::Abreast{
        chunks, {"abreast", shape.block, {t, c, h, b}, weight}, Func("x_abreast"), Func("partial_abreast")});
    LinearStages::Abreast &a = *s.abreast;
    a.x(u, k, m, c, h, b) =
        cast(shape.type, element_of_row(s, in, unsafe_promise_clamped((c * chunks + u) * chunk + k, 0, in.depth - 1)));
    a.partial(u, n, m, c, h, b) = make_const(shape.type, 0);
    a.block_sums = sum_by_blocks(0, chunk, chunk, in.ahead, shape, [&](const RDom &r, const Expr &place) {
        a.partial(u, n, m, c, h, b) += a.x(u, place + r.x, m, c, h, b) * a.transpose(n * chunks + u, r.x, {place, c, h, b});
    });
}

}  // namespace

LinearStages linear_stages(const LinearInputs &in, const LinearShape &shape) {
    LinearStages s;
    Var n = s.n, m = s.m, k = s.k, c = s.c, h = s.h, b = s.b;
    // Beyond the last column or depth something else is read, and never stored.
    auto weight = [&](Expr n, Expr k) {
        if (in.as_it_lies) return cast(shape.type, in.weight(n, k, h, b));
        return cast(shape.type, in.weight(min(n, in.columns - 1), min(k, in.depth - 1), h, b));
    };
    // Pairs are taken apart once for all rows, and so is what lies beyond an end.
    const bool panel = !in.read_once && (!in.as_it_lies || in.x.type().is_bfloat());
    if (panel) s.panel = Func("panel");
    if (shape.block) {
        s.transpose.emplace("transpose", shape.block, std::vector<Var>{}, weight, read_by_halves(in));
        s.panel(n, k, h, b) = (*s.transpose)(n, k, {});
    } else if (panel) {
        s.panel(n, k, h, b) = weight(n, k);
    }

    const std::function<Expr(Expr)> x = widened_rows(s, in, shape);
    auto weight_of_sums = [&](const Expr &k) { return panel ? s.panel(n, k, h, b) : weight(n, k); };
    s.partial = Func("partial");
    if (shape.strands > 1) {
        s.widened = true;
        s.partial(n, m, s.u, c, h, b) = make_const(shape.type, 0);
        add_pairs(s, in, shape, 1, [&](const PairTerm &term) {
            const Expr k = term.pair * 2 + term.element;
            s.partial(n, m, s.u, c, h, b) += term(x(k)) * term(weight_of_sums(k));
        });
        add_partials(s, in, shape);
        add_odd(s, in, shape);
    } else {
        s.partial(n, m, c, h, b) = make_const(shape.type, 0);
        const Expr first = c * shape.chunk;
        auto add = [&](const Expr &term) {
            const Expr at = unsafe_promise_clamped(first + term, 0, in.depth - 1);
            s.partial(n, m, c, h, b) += x(at) * weight_of_sums(at);
        };
        Expr in_passes = 0, end = in.depth;
        if (const int depth = shape.pass_depth; depth > 1) {
            RDom r(0, depth, 0, shape.chunk / depth, "passes");
            end = min(in.depth, first + shape.chunk);
            in_passes = (end - first) / depth * depth;
            r.where(r.y * depth < in_passes);
            s.passes = {r.x, r.y};
            add(r.y * depth + r.x);
        }
        RDom r(0, s.passes ? shape.pass_depth - 1 : shape.chunk, "partial_k");
        r.where(first + in_passes + r.x < end);
        s.partial_k = r.x;
        add(in_passes + r.x);
        add_partials(s, in, shape);
    }
    add_output(s, in);
    return s;
}

LinearStages linear_pair_stages(const LinearInputs &in, const LinearShape &shape) {
    LinearStages s;
    Var e = s.e, n = s.n, m = s.m, k = s.k, u = s.u, c = s.c, h = s.h, b = s.b;
    // Clamped as one number, which is a ramp of elements then: a block within the depth is read row by row.
    auto weight = [&](Expr e, Expr n, Expr k) { return in.weight(min(n, in.columns - 1), min(k * 2 + e, in.depth - 1), h, b); };
    if (!in.as_it_lies) s.panel = Func("panel");
    if (shape.block) {
        s.transpose.emplace("transpose", shape.block, std::vector<Var>{},
                            [&](Expr n, Expr k) { return pair_of(weight(0, n, k), weight(1, n, k)); });
        s.panel(e, n, k, u, h, b) = element_of_pair((*s.transpose)(n, k * shape.strands + u, {}), e);
    } else if (!in.as_it_lies) {
        s.panel(e, n, k, u, h, b) = weight(e, n, k * shape.strands + u);
    }

    s.partial = Func("partial");
    s.partial(n, m, u, c, h, b) = make_const(shape.type, 0);
    add_pairs(s, in, shape, 1, [&](const PairTerm &term) {
        const Expr k = term.pair * 2 + term.element;
        const Expr w = in.as_it_lies ? in.weight(n, k, h, b) : s.panel(term.element, n, term.group, u, h, b);
        s.partial(n, m, u, c, h, b) += cast(shape.type, term(element_of_row(s, in, k))) * cast(shape.type, term(w));
    });
    add_partials(s, in, shape);
    s.last_apart = shape.last_apart;
    if (!s.last_apart) add_odd(s, in, shape);
    add_output(s, in, s.last_apart ? s.partial(n, m, shape.strands - 1, chunks_of(in, shape) - 1, h, b) : Expr());
    return s;
}

LinearStages linear_pair_row_stages(const LinearInputs &in, const LinearShape &shape) {
    LinearStages s;
    Var e = s.e, n = s.n, m = s.m, k = s.k, c = s.c, t = s.t, u = s.u, h = s.h, b = s.b;
    const Expr pairs = in.depth / 2;
    const int groups_of_line = shape.block ? shape.block / shape.strands : 1;
    s.widened = shape.widened;
    if (s.widened) {  // the elements of pairs apart, so that those of all strands are neighbours
        auto x = [&](const Expr &e) { return element_of_row(s, in, min(likely(s.k), pairs - 1) * 2 + e); };
        s.x_rows = Func("x_rows"), s.x_rows(s.k, e, m, h, b) = cast(shape.type, element_of_pair(pair_of(x(0), x(1)), e));
    }
    auto weight = [&](const Expr &n, const Expr &pair) {
        auto element = [&](const Expr &e) { return in.weight(min(n, in.columns - 1), pair * 2 + e, h, b); };
        return pair_of(element(0), element(1));
    };
    auto define = [&](const std::string &name, Func &group, Func &panel, const Expr &pair) {
        group = Func(name), group(u, n, t, h, b) = weight(n, pair);
        if (!s.widened) panel = Func(name + "_panel"), panel(e, u, n, t, h, b) = element_of_pair(group(u, n, t, h, b), e);
    };
    define("group", s.group, s.panel, unsafe_promise_clamped(t, 0, pairs - shape.strands) + u);
    define("rest", s.rest_group, s.rest_panel, min(t + u, pairs - 1));
    auto lines_of = [&](const std::string &name) {
        auto of_line = [&](const Expr &n, const Expr &k) {
            return weight(n, unsafe_promise_clamped(t, 0, pairs - shape.block) + k);
        };
        LinearStages::Lines lines{{name, shape.block, {t, h, b}, of_line, false, shape.strands}, Func(name + "_panel")};
        lines.panel(e, u, n, k, t, h, b) = element_of_pair(lines.transpose(n, k * shape.strands + u, {t, h, b}), e);
        return lines;
    };
    if (groups_of_line > 1) {
        s.lines = lines_of("line");
        auto add_whole_chunks = [&](int chunks) {
            LinearStages::WholeChunks whole{chunks, Func("whole_partial"), lines_of("whole_line")};
            LinearStages::Lines &lines = whole.lines;
            const RDom r(0, 2, 0, groups_of_line, 0, shape.chunk / 2 / shape.block, "whole_lines");
            lines.pair = r.x, lines.group = r.y, lines.line = r.z;
            const Expr line = (c * chunks + s.a) * (shape.chunk / 2) + r.z * shape.block;
            const Expr pair = line + r.y * shape.strands + u;
            const Expr x = element_of_row(s, in, unsafe_promise_clamped(pair * 2 + r.x, 0, in.depth - 1));
            whole.partial(u, n, m, s.a, c, h, b) = make_const(shape.type, 0);
            whole.partial(u, n, m, s.a, c, h, b) +=
                cast(shape.type, x) * cast(shape.type, lines.panel(r.x, u, n, r.y, line, h, b));
            s.whole_chunks.push_back(whole);
        };
        if (shape.abreast > 1) add_whole_chunks(shape.abreast);
        add_whole_chunks(1);
    }

    s.partial = Func("partial");
    s.partial(u, n, m, c, h, b) = make_const(shape.type, 0);
    add_pairs(s, in, shape, groups_of_line, [&](const PairTerm &term) {
        const bool rest = term.within.defined();
        const Expr first = term.group * shape.strands;
        if (s.widened) {
            const Expr w = element_of_pair((rest ? s.rest_group : s.group)(u, n, first, h, b), term.element);
            s.partial(u, n, m, c, h, b) += term(s.x_rows(term.pair, term.element, m, h, b)) * term(cast(shape.type, w));
            return;
        }
        const Expr w = term.line.defined()
                           ? s.lines->panel(term.element, u, n, term.group_of_line, term.line * shape.block, h, b)
                           : (rest ? s.rest_panel : s.panel)(term.element, u, n, first, h, b);
        const Expr x = element_of_row(s, in, term.pair * 2 + term.element);
        s.partial(u, n, m, c, h, b) += cast(shape.type, term(x)) * cast(shape.type, term(w));
    });
    add_partials(s, in, shape);
    add_odd(s, in, shape);
    add_output(s, in);
    return s;
}

LinearStages linear_block_stages(const LinearInputs &in, const LinearShape &shape) {
    LinearStages s;
    Var n = s.n, m = s.m, c = s.c, t = s.t, h = s.h, b = s.b;
    const int chunk = shape.chunk, block = shape.block;
    if (shape.abreast > 1) add_abreast(s, in, shape);
    // Beside groups of chunks, whose rows are read whole, LLVM would keep halves in memory.
    s.transpose.emplace(
        "transpose", block, std::vector<Var>{t, h, b},
        [&](Expr n, Expr k) { return cast(shape.type, in.weight(min(n, in.columns - 1), t + k, h, b)); },
        read_by_halves(in) && shape.abreast == 1);
    const std::function<Expr(Expr)> x = widened_rows(s, in, shape);

    s.partial = Func("partial");
    s.partial(n, m, c, h, b) = make_const(shape.type, 0);
    const Expr begin = c * chunk, end = min(begin + chunk, in.depth);
    s.block_sums = sum_by_blocks(begin, end, in.depth, in.ahead, shape, [&](const RDom &r, const Expr &place) {
        s.partial(n, m, c, h, b) += x(place + r.x) * (*s.transpose)(n, r.x, {place, h, b});
    });
    add_partials(s, in, shape);
    add_output(s, in);
    return s;
}

}  // namespace attune
