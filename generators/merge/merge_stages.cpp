// SPDX-License-Identifier: MIT
#include "generators/merge/merge_stages.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Merge of a row's two lse. Infinities and NaN are recognised by their bits, and arithmetic that may meet them is strict: code
// generation assumes that other arithmetic meets none.
struct RowOfParts {
    Expr lse_a, lse_b;
    Type type = lse_a.type();

    Expr one = make_const(type, 1);
    Expr empty_a = is_minus_infinity(lse_a), empty_b = is_minus_infinity(lse_b);
    Expr a_is_larger = strict_float(lse_a >= lse_b);
    // exp(-|lse_a - lse_b|): the weight of the smaller part beside 1 of the larger.
    Expr smaller = strict_float(
        exp2_nonpositive(select(a_is_larger, lse_b - lse_a, lse_a - lse_b), make_const(type, std::numbers::log2e)));
    Expr sum = strict_float(one + smaller);

    static Expr is_minus_infinity(const Expr &x) {
        const Type bits = UInt(x.type().bits());
        return bits_of(x) ==
               (bits.bits() == 32 ? make_const(bits, 0xff800000u) : make_const(bits, int64_t(0xfff0000000000000ull)));
    }

    // A part without keys leaves the other as it is.
    Expr share_a() const { return strict_float(select(empty_b, one, select(a_is_larger, one, smaller) / sum)); }
    Expr share_b() const { return strict_float(select(empty_a, one, select(a_is_larger, smaller, one) / sum)); }
    Expr lse() const {
        const Expr larger = strict_float(select(a_is_larger, lse_a, lse_b));
        // log() of a NaN may be a number.
        const Expr of_both = select(is_nan(smaller), bits_of(smaller), bits_of(strict_float(larger + log(sum))));
        return reinterpret(type, select(empty_a, bits_of(lse_b), empty_b, bits_of(lse_a), of_both));
    }
};

}  // namespace

MergeStages merge_stages(const MergePart &part_a, const MergePart &part_b, Expr queries) {
    MergeStages s;
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    const Type stored = part_a.out.type();
    const Expr at = min(i, queries - 1);
    const RowOfParts row{part_a.lse(at, h, b), part_b.lse(at, h, b)};
    s.empty_a = Func("empty_a"), s.empty_b = Func("empty_b");
    s.empty_a(i, h, b) = row.empty_a;
    s.empty_b(i, h, b) = row.empty_b;
    s.share_a = Func("share_a"), s.share_b = Func("share_b");
    s.share_a(i, h, b) = row.share_a();
    s.share_b(i, h, b) = row.share_b();

    // The row of a part without keys may hold any values. Strict: 0 must not become 0 times the row.
    const Expr zero = make_const(row.type, 0), of_a = cast(row.type, part_a.out(d, i, h, b)),
               of_b = cast(row.type, part_b.out(d, i, h, b));
    s.out = Func("out_stage");
    s.out(d, i, h, b) = narrowed(stored, strict_float(select(s.empty_a(i, h, b), zero, s.share_a(i, h, b) * of_a) +
                                                      select(s.empty_b(i, h, b), zero, s.share_b(i, h, b) * of_b)));
    s.lse = Func("lse_stage");
    s.lse(i, h, b) = RowOfParts{part_a.lse(i, h, b), part_b.lse(i, h, b)}.lse();
    return s;
}

}  // namespace attune
