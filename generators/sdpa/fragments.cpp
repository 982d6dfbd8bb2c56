#include "generators/sdpa/fragments.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

namespace {

// These, then those.
template<typename T> std::vector<T> joined(std::vector<T> of, const std::vector<Var> &rest) {
    of.insert(of.end(), rest.begin(), rest.end());
    return of;
}

}  // namespace

Expr row_of_slot(const FragmentShape &shape, const Expr &r, const Expr &t) {
    const Expr l = r / shape.lane_rows, row = r % shape.lane_rows;
    return t * shape.rows + l / lanes_of_warp * shape.warp_rows() + row / 2 * rows_of_product +
           l % lanes_of_warp / lanes_of_row + row % 2 * 8;
}

// A lane has two columns of each group of 8, and two words of 16 terms.
Expr element_of_lane(const Expr &j, const Expr &l) { return j / 2 * 8 + l % lanes_of_row * 2 + j % 2; }

Func own_words(const std::string &name, const FragmentShape &shape, const FragmentVars &v, const ElementOfSlot &element) {
    const Expr slot = v.l * shape.lane_rows + v.p * 2 + v.e % 2, word = v.m * 8 + v.e / 2 * 4 + v.l % lanes_of_row;
    Func words(name);
    words(v.e, v.l, v.p, v.m, v.t, v.h, v.b) = concat_bits({element(word * 2, slot), element(word * 2 + 1, slot)});
    return words;
}

Func chunk_words(const std::string &name, const FragmentVars &v, const FragmentInstructions &does, const Func &staged, int side,
                 bool transposed, const std::vector<Var> &of) {
    // Two groups of columns, and of each both halves of 16 terms.
    const Expr in_matrix = v.l % 8, half = v.l / 8 % 2, group = v.n * 2 + v.l % lanes_of_warp / 16;
    const std::vector<Expr> first = transposed ? std::vector<Expr>{group * 4, v.m * 16 + half * 8 + in_matrix, side}
                                               : std::vector<Expr>{v.m * 8 + half * 4, group * 8 + in_matrix, side};
    Func words(name);
    words(joined<Var>({v.e, v.l, v.n, v.m}, of)) = does.matrices(staged(joined(first, of)), v.e, transposed);
    return words;
}

FragmentProduct product_of(const std::string &name, const FragmentShape &shape, const FragmentVars &v,
                           const FragmentInstructions &does, const Func &own, const Func &met, const std::vector<Var> &of) {
    RDom step(0, shape.channels / 16, name + "_channels");
    FragmentProduct product{Func(name), step.x};
    const std::vector<Var> at = joined<Var>({v.e, v.l, v.p, v.n}, of);
    product.sum(at) = 0.0f;
    product.sum(at) = does.multiply(own(v.e, v.l, v.p, step, v.t, v.h, v.b),
                                    met(joined<Expr>({v.n % 2 * 2 + v.e % 2, v.l, v.n / 2, step}, of)), product.sum(at));
    return product;
}

Expr element_of_product(const Func &sum, const FragmentShape &shape, const Expr &r, const Expr &k, const std::vector<Var> &of) {
    const Expr row = r % shape.lane_rows;
    return sum(joined<Expr>({row % 2 * 2 + k % 2, r / shape.lane_rows, row / 2, k / 2}, of));
}

SettledTotals settle(const FragmentShape &shape, const FragmentVars &v, const SettleAgain &what) {
    Var r = v.r, u = v.u, t = v.t, g = v.g, h = v.h, b = v.b;
    const auto channels = static_cast<std::size_t>(shape.lane_channels());
    SettledTotals s;
    s.has_heads = what.heads.defined();
    s.spoilt = Func("spoilt"), s.again = Func("again"), s.settled = Func("settled");
    s.spoilt(r, t, h, b) = select(what.spoilt, what.met_rows, 0);
    const Expr rows_again = s.spoilt(r, t, h, b);
    std::vector<Expr> start;
    for (std::size_t j = 0; j < channels; j++) start.push_back(select(rows_again > 0, 0.0f, what.total(static_cast<int>(j))));
    s.settled(r, t, h, b) = Tuple(start);

    // In stretches, because a lane asks for each row of them whether it takes part.
    constexpr int stretch = 1024;
    RDom at(0, stretch, "met_again");
    std::vector<Range> loops = {{0, (what.met_rows + stretch - 1) / stretch}};
    if (s.has_heads) loops.emplace_back(0, what.heads);
    RDom stretches(loops, "stretch");
    s.met = at.x, s.stretch = stretches[0];
    if (s.has_heads) s.head = stretches[1];
    const Expr met = u * stretch + at.x;
    what.take(at, met);
    std::vector<Var> of = {r, u, t, h, b};
    std::vector<Expr> each = {r, stretches[0], t, h, b};
    if (s.has_heads) of.insert(of.begin() + 3, g), each.insert(each.begin() + 3, stretches[1]);
    s.again(of) = Tuple(std::vector<Expr>(channels, 0.0f));
    stretches.where(rows_again > stretches[0] * stretch);
    const std::vector<Expr> terms = what.terms(met, s.has_heads ? Expr(g) : Expr(0));
    std::vector<Expr> after, sums;
    for (std::size_t j = 0; j < channels; j++) {
        after.push_back(s.again(of)[static_cast<int>(j)] + terms[j]);
        sums.push_back(s.settled(r, t, h, b)[static_cast<int>(j)] + s.again(each)[static_cast<int>(j)]);
    }
    s.again(of) = Tuple(after);
    s.settled(r, t, h, b) = Tuple(sums);
    return s;
}

Expr is_no_number(const Expr &x) { return (bits_of(x) & 0x7fffffff) > 0x7f800000; }

}  // namespace attune
