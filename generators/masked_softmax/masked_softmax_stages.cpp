// SPDX-License-Identifier: MIT
#include "generators/masked_softmax/masked_softmax_stages.h"
#include <limits>
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// The bits of a number as an integer of the same order, and the inverse map. The maximum of integers across the lanes of a
// vector takes a few instructions; the maximum of numbers that may be NaN is taken one by one.
Expr order(const Expr &x) {
    const Type bits = Int(x.type().bits());
    const Expr n = reinterpret(bits, x);
    return n ^ ((n >> (bits.bits() - 1)) & bits.max());
}

// The maximum of a row: for each place over the last block and `score` of the whole blocks, then over the places and `masked`.
// Not below `lowest`.
void add_row_max(MaskedSoftmaxStages &s, const Expr &score, const Expr &lowest, const Expr &masked, const RDom &place) {
    const Var e = s.e, i = s.i, h = s.h, b = s.b;
    s.place_max = Func("place_max");
    s.place_max(e, i, h, b) = max(lowest, s.last_score(e, i, h, b));
    s.place_max(e, i, h, b) = max(s.place_max(e, i, h, b), score);
    s.place_order = Func("place_order");
    s.place_order(e, i, h, b) = order(s.place_max(e, i, h, b));
    s.row_order = Func("row_order");
    s.row_order(i, h, b) = order(masked);
    s.row_order(i, h, b) = max(s.row_order(i, h, b), s.place_order(place, i, h, b));
    s.row_max = Func("row_max");
    s.row_max(i, h, b) = reinterpret(score.type(), order(s.row_order(i, h, b)));
}

}  // namespace

MaskedSoftmaxStages masked_softmax_stages(const MaskedSoftmaxInputs &in, int block) {
    MaskedSoftmaxStages s;
    const Var e = s.e, c = s.c, j = s.j, i = s.i, h = s.h, b = s.b;
    const Type t = in.scores.type();
    const double finite_lowest = t.bits() == 32 ? std::numeric_limits<float>::lowest() : std::numeric_limits<double>::lowest();
    const Expr zero = make_const(t, 0), lowest = make_const(t, finite_lowest), seed = make_const(t, -1e6);
    const Expr length = min(in.lengths(i, b), in.keys);
    const Expr has_masked = in.seed && length < in.keys;
    const Expr log2e = make_const(t, std::numbers::log2e);
    auto weight_of = [&](const Expr &x) { return exp2_nonpositive(strict_float(x - s.row_max(i, h, b)), log2e, in.powers); };

    // Whole blocks are read in place, twice; the keys after them once, into a block padded with -inf.
    const Expr whole = clamp(length, 0, in.keys) / block, first = whole * block;
    RDom pad(0, block, "pad"), rest(0, block, "rest");
    rest.where(rest < length - first);
    s.last_score = Func("last_score");
    s.last_score(e, i, h, b) = undef(t);
    s.last_score(pad, i, h, b) = t.min();  // -inf
    s.last_score(rest, i, h, b) = in.scores(unsafe_promise_clamped(first + rest, 0, in.keys - 1), i, h, b);

    RDom blocks(0, in.keys / block, "blocks"), last(0, 1, "last"), all(0, (in.keys + block - 1) / block, "all");
    RDom place(0, block, "place");
    blocks.where(blocks < whole), last.where(first < length), all.where(all * block < length);
    const Expr score = in.scores(blocks * block + e, i, h, b), last_score = s.last_score(e, i, h, b);
    add_row_max(s, score, lowest, select(has_masked, seed, lowest), place);

    // A NaN or +inf makes its own weight NaN and so the row, even where max() lost it. A row of -inf has the sum 0, and so is
    // NaN, too.
    s.weight = Func("weight");
    s.weight(e, c, i, h, b) = undef(t);
    s.weight(e, blocks, i, h, b) = weight_of(score);
    s.weight(e, whole + last, i, h, b) = weight_of(last_score);
    s.place_sum = Func("place_sum");
    s.place_sum(e, i, h, b) = zero;
    s.place_sum(e, i, h, b) += s.weight(e, all, i, h, b);
    s.row_sum = Func("row_sum");
    s.row_sum(i, h, b) = zero;
    s.row_sum(i, h, b) += s.place_sum(place, i, h, b);

    s.masked_weight = Func("masked_weight");
    s.masked_weight(i, h, b) = select(has_masked, exp2_nonpositive(strict_float(seed - s.row_max(i, h, b)), log2e), zero);
    s.scale = Func("scale");
    s.scale(i, h, b) = make_const(t, 1) / (s.row_sum(i, h, b) + cast(t, in.keys - length) * s.masked_weight(i, h, b));

    const Expr scale = s.scale(i, h, b);
    s.out = Func("out_stage");
    // likely() marks the value: on the condition Halide 21 does not see it, and tests each key.
    s.out(j, i, h, b) = select(j < length, likely(s.weight(j % block, j / block, i, h, b) * scale),  //
                               has_masked, s.masked_weight(i, h, b) * scale, zero);
    s.pad = pad, s.rest = rest, s.whole = blocks, s.last = last, s.all = all, s.place = place;
    return s;
}

}  // namespace attune
