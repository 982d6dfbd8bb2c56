#include "generators/merge/merge_stages.h"
#include "generators/math/exp2.h"
#include <limits>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// As bit patterns, because arithmetic on infinities and NaN is undefined where it is not strict.
Expr minus_infinity_bits(const Type &t) {
    const Type bits = UInt(t.bits());
    return t.bits() == 32 ? make_const(bits, 0xff800000u) : make_const(bits, int64_t(0xfff0000000000000ull));
}
Expr bits_of(const Expr &x) { return reinterpret(UInt(x.type().bits()), x); }

}  // namespace

MergeStages merge_stages(const MergePart &part_a, const MergePart &part_b, Expr queries) {
    MergeStages s;
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    const Expr row = min(i, queries - 1), lse_a = part_a.lse(row, h, b), lse_b = part_b.lse(row, h, b);
    const Type t = lse_a.type(), bits = UInt(t.bits()), stored = part_a.out.type();
    const Expr zero = make_const(t, 0), one = make_const(t, 1), log2_e = make_const(t, 1.4426950408889634);

    s.empty_a = Func("empty_a");
    s.empty_a(i, h, b) = bits_of(lse_a) == minus_infinity_bits(t);
    s.empty_b = Func("empty_b");
    s.empty_b(i, h, b) = bits_of(lse_b) == minus_infinity_bits(t);
    const Expr empty_a = s.empty_a(i, h, b), empty_b = s.empty_b(i, h, b);

    const Expr a_is_larger = strict_float(lse_a >= lse_b);
    s.smaller = Func("smaller");
    s.smaller(i, h, b) = strict_float(exp2_nonpositive(select(a_is_larger, lse_b - lse_a, lse_a - lse_b) * log2_e));
    const Expr smaller = s.smaller(i, h, b), sum = strict_float(one + smaller), larger_share = strict_float(one / sum),
               smaller_share = strict_float(smaller / sum);

    // A part without keys leaves the other as it is.
    s.share_a = Func("share_a");
    s.share_a(i, h, b) = strict_float(select(empty_b, one, a_is_larger, larger_share, smaller_share));
    s.share_b = Func("share_b");
    s.share_b(i, h, b) = strict_float(select(empty_a, one, a_is_larger, smaller_share, larger_share));

    // The row of a part without keys may hold anything. Strict, so that 0 is not taken for 0 times it.
    const Expr of_a = cast(t, part_a.out(d, i, h, b)), of_b = cast(t, part_b.out(d, i, h, b));
    const Expr both = strict_float(select(empty_a, zero, s.share_a(i, h, b) * of_a) +  //
                                   select(empty_b, zero, s.share_b(i, h, b) * of_b));
    s.out = Func("out_stage");
    s.out(d, i, h, b) = cast(stored, both);

    // log() of a NaN may be a number.
    const Expr of_a_row = part_a.lse(i, h, b), of_b_row = part_b.lse(i, h, b);
    const Expr larger = strict_float(select(of_a_row >= of_b_row, of_a_row, of_b_row));
    const Expr of_both = select(is_nan(smaller), bits_of(smaller), bits_of(strict_float(larger + log(sum))));
    s.lse = Func("lse_stage");
    s.lse(i, h, b) = reinterpret(t, select(empty_a, bits_of(of_b_row), empty_b, bits_of(of_a_row), of_both));
    return s;
}

}  // namespace attune
