// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/mma_fragments.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

namespace {

// Concatenation.
template<typename T> std::vector<T> joined(std::vector<T> of, const std::vector<Var> &rest) {
    of.insert(of.end(), rest.begin(), rest.end());
    return of;
}

}  // namespace

Expr row_of_slot(const MmaShape &shape, const Expr &r, const Expr &t) {
    const Expr l = r / shape.lane_rows, row = r % shape.lane_rows;
    return t * shape.rows + l / lanes_of_warp * shape.warp_rows() + row / 2 * rows_of_product +
           l % lanes_of_warp / lanes_of_row + row % 2 * 8;
}

// A lane has two columns of each group of 8.
Expr element_of_lane(const Expr &j, const Expr &l) { return j / 2 * 8 + l % lanes_of_row * 2 + j % 2; }

ResidentWords resident_words(const std::string &name, const MmaShape &shape, const MmaVars &v, const MmaInstructions &does,
                             const RawInput &in, const std::function<RowOfInput(Expr slot)> &row_of) {
    ResidentWords resident{Func(name), {}};
    FuncRef words = resident.words(v.e, v.l, v.p, v.m, v.t, v.h, v.b);
    if (shape.stage_resident) {
        const Expr in_warp = v.k % shape.warp_rows(), in_product = in_warp % rows_of_product;
        const Expr lane = v.k / shape.warp_rows() * lanes_of_warp + in_product % 8 * lanes_of_row;
        const RowOfInput of = row_of(lane * shape.lane_rows + in_warp / rows_of_product * 2 + in_product / 8);
        resident.rows = Func(name + "_rows");
        resident.rows(v.w, v.k, v.t, v.h, v.b) =
            does.copied(in.address(v.w * shape.in_word, of.row, of.head, v.b), bytes_together);
        const Expr row = v.l / lanes_of_warp * shape.warp_rows() + v.p * rows_of_product + v.l % rows_of_product;
        const Expr word = v.m * words_of_product + v.l % lanes_of_warp / rows_of_product * 4;
        words = does.matrices(resident.rows(word, row, v.t, v.h, v.b), v.e, false);
        return resident;
    }
    const RowOfInput of = row_of(v.l * shape.lane_rows + v.p * 2 + v.e % 2);
    const Expr word = v.m * words_of_product + v.e / 2 * 4 + v.l % lanes_of_row;
    std::vector<Expr> elements;
    for (int n = 0; n < shape.in_word; n++) elements.push_back(in.bits(word * shape.in_word + n, of.row, of.head, v.b));
    words = shape.in_word == 1 ? elements[0] : concat_bits(elements);
    return resident;
}

Func block_words(const std::string &name, const MmaShape &shape, const MmaVars &v, const MmaInstructions &does,
                 const Func &staged, int side, bool transposed, const std::vector<Var> &of) {
    Func words(name);
    const std::vector<Var> at = joined<Var>({v.e, v.l, v.n, v.m}, of);
    if (transposed && shape.in_word == 1) {
        // Terms are distributed over lanes as a product's columns are, so that its words are words of an operand.
        const Expr channel = (v.n * 2 + v.e / 2) * 8 + v.l % lanes_of_warp / lanes_of_row;
        words(at) = staged(joined<Expr>({channel, v.m * words_of_product + element_of_lane(v.e % 2, v.l), side}, of));
        return words;
    }
    // Two groups of columns, each with both halves of the terms.
    const Expr in_matrix = v.l % 8, half = v.l / 8 % 2, group = v.n * 2 + v.l % lanes_of_warp / 16;
    const std::vector<Expr> first = transposed ? std::vector<Expr>{group * 4, v.m * 16 + half * 8 + in_matrix, side}
                                               : std::vector<Expr>{v.m * 8 + half * 4, group * 8 + in_matrix, side};
    words(at) = does.matrices(staged(joined(first, of)), v.e, transposed);
    return words;
}

std::vector<Expr> of_each_product(const MmaShape &shape, const std::function<Expr(int j)> &operand) {
    std::vector<Expr> all;
    for (int j = 0; j < shape.together(); j++) all.push_back(operand(j));
    return all;
}

Expr unfollowed(const MmaInstructions &does, const Expr &x, const Expr &extent, const Expr &turn) {
    return unsafe_promise_clamped(does.opaque(x, turn), 0, extent - 1);
}

MmaProduct product_of(const std::string &name, const MmaShape &shape, const MmaVars &v, const MmaInstructions &does,
                      const ResidentWords &resident, const Func &streamed, const std::vector<Var> &of) {
    RDom step(0, shape.channels / terms_together, name + "_channels");
    MmaProduct product{Func(name), step.x};
    const std::vector<Var> at = joined<Var>({v.e, v.l, v.p, v.n}, of);
    // The operands made from f32 words do not fit in registers for all turns.
    const bool resident_in_turn = shape.in_word == 1 && !shape.stage_resident;
    const auto of_resident = [&](int j) {
        const Expr words = resident.words(v.e, v.l, v.p, step * shape.together() + j, v.t, v.h, v.b);
        return resident_in_turn ? does.opaque(words, of.front()) : words;
    };
    const auto of_streamed = [&](int j) {
        return streamed(joined<Expr>({v.n % 2 * 2 + v.e % 2, v.l, v.n / 2, step * shape.together() + j}, of));
    };
    product.sum(at) = 0.0f;
    product.sum(at) = does.multiply(of_each_product(shape, of_resident), of_each_product(shape, of_streamed), product.sum(at));
    return product;
}

Expr element_of_product(const Func &sum, const MmaShape &shape, const Expr &r, const Expr &k, const std::vector<Var> &of) {
    const Expr row = r % shape.lane_rows;
    return sum(joined<Expr>({row % 2 * 2 + k % 2, r / shape.lane_rows, row / 2, k / 2}, of));
}

RecomputedTotals recompute_nonfinite(const MmaVars &v, const NonfiniteRows &what) {
    Var r = v.r, u = v.u, t = v.t, g = v.g, h = v.h, b = v.b;
    const std::size_t count = what.totals.size();
    RecomputedTotals s;
    s.has_heads = what.heads.defined();
    s.nonfinite = Func("nonfinite"), s.recomputed = Func("recomputed"), s.totals = Func("totals");
    s.nonfinite(r, t, h, b) = select(what.nonfinite, what.streamed_rows, 0);
    const Expr recomputed_rows = s.nonfinite(r, t, h, b);
    std::vector<Expr> start;
    for (std::size_t j = 0; j < count; j++) start.push_back(select(recomputed_rows > 0, what.begin[j], what.totals[j]));
    s.totals(r, t, h, b) = Tuple(start);

    // In stretches, because a lane tests for each row of a stretch whether it takes part.
    constexpr int stretch = 1024;
    RDom at(0, stretch, "recomputed_row");
    std::vector<Range> loops = {{0, (what.streamed_rows + stretch - 1) / stretch}};
    if (s.has_heads) loops.emplace_back(0, what.heads);
    RDom stretches(loops, "stretch");
    s.streamed = at.x, s.stretch = stretches[0];
    if (s.has_heads) s.head = stretches[1];
    const Expr streamed = u * stretch + at.x;
    what.take(at, streamed);
    std::vector<Var> of = {r, u, t, h, b};
    std::vector<Expr> each = {r, stretches[0], t, h, b};
    if (s.has_heads) of.insert(of.begin() + 3, g), each.insert(each.begin() + 3, stretches[1]);
    s.recomputed(of) = Tuple(std::vector<Expr>(count, 0.0f));
    stretches.where(recomputed_rows > stretches[0] * stretch);
    const std::vector<Expr> terms = what.terms(streamed, s.has_heads ? Expr(g) : Expr(0));
    std::vector<Expr> after, sums;
    for (std::size_t j = 0; j < count; j++) {
        after.push_back(s.recomputed(of)[static_cast<int>(j)] + terms[j]);
        sums.push_back(s.totals(r, t, h, b)[static_cast<int>(j)] + s.recomputed(each)[static_cast<int>(j)]);
    }
    s.recomputed(of) = Tuple(after);
    s.totals(r, t, h, b) = Tuple(sums);
    return s;
}

Expr is_no_number(const Expr &x) { return (bits_of(x) & 0x7fffffff) > 0x7f800000; }

}  // namespace attune
