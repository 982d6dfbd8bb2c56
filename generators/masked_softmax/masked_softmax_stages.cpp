#include "generators/masked_softmax/masked_softmax_stages.h"
#include "generators/math/exp2.h"
#include <limits>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// The bits of a number as an integer of the same order, and back again. Integers have a maximum across the lanes of a vector
// that takes a few instructions; that of numbers that may be NaN is taken one by one.
Expr order(const Expr &x) {
    const Type bits = Int(x.type().bits());
    const Expr n = reinterpret(bits, x);
    return n ^ ((n >> (bits.bits() - 1)) & bits.max());
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
    auto exp = [&](const Expr &x) { return exp2_nonpositive(x * make_const(t, 1.4426950408889634)); };

    RDom pad(0, block, "pad"), copied(0, in.keys, "copied");
    copied.where(likely(copied < length));
    s.score = Func("score");
    s.score(j, i, h, b) = undef(t);
    s.score(clamp(length - 1, 0, in.keys - 1) / block * block + pad, i, h, b) = t.min();  // -inf
    s.score(copied, i, h, b) = in.scores(copied, i, h, b);

    RDom blocks(0, (in.keys + block - 1) / block, "blocks"), place(0, block, "place");
    blocks.where(blocks * block < length);
    s.place_max = Func("place_max");
    s.place_max(e, i, h, b) = lowest;
    s.place_max(e, i, h, b) = max(s.place_max(e, i, h, b), s.score(blocks * block + e, i, h, b));
    s.place_order = Func("place_order");
    s.place_order(e, i, h, b) = order(s.place_max(e, i, h, b));
    s.row_order = Func("row_order");
    s.row_order(i, h, b) = order(select(has_masked, seed, lowest));
    s.row_order(i, h, b) = max(s.row_order(i, h, b), s.place_order(place, i, h, b));
    s.row_max = Func("row_max");
    s.row_max(i, h, b) = reinterpret(t, order(s.row_order(i, h, b)));

    // A NaN or +inf makes its weight NaN and with it the row, wherever max() may have lost it. A row of -inf has the sum 0,
    // and so is NaN, too.
    s.weight = Func("weight");
    s.weight(e, c, i, h, b) = undef(t);
    s.weight(e, blocks, i, h, b) = exp(s.score(blocks * block + e, i, h, b) - s.row_max(i, h, b));
    s.place_sum = Func("place_sum");
    s.place_sum(e, i, h, b) = zero;
    s.place_sum(e, i, h, b) += s.weight(e, blocks, i, h, b);
    s.row_sum = Func("row_sum");
    s.row_sum(i, h, b) = zero;
    s.row_sum(i, h, b) += s.place_sum(place, i, h, b);

    s.masked_weight = Func("masked_weight");
    s.masked_weight(i, h, b) = select(has_masked, exp(seed - s.row_max(i, h, b)), zero);
    s.scale = Func("scale");
    s.scale(i, h, b) = make_const(t, 1) / (s.row_sum(i, h, b) + cast(t, in.keys - length) * s.masked_weight(i, h, b));

    const Expr scale = s.scale(i, h, b);
    s.out = Func("out_stage");
    s.out(j, i, h, b) = select(j < length, s.weight(j % block, j / block, i, h, b) * scale,  //
                               has_masked, s.masked_weight(i, h, b) * scale, zero);
    s.pad = pad, s.copied = copied, s.block = blocks, s.place = place;
    return s;
}

}  // namespace attune
