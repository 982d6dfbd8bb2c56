// SPDX-License-Identifier: MIT
#include "generators/merge/merge_stages.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"
#include <functional>
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Infinities and NaN are recognised by their bits, and arithmetic that may meet them is strict: code generation assumes that
// other arithmetic meets none.
Expr is_minus_infinity(const Expr &x) {
    const Type bits = UInt(x.type().bits());
    return bits_of(x) == (bits.bits() == 32 ? make_const(bits, 0xff800000u) : make_const(bits, int64_t(0xfff0000000000000ull)));
}

// Builder of the stages of one output's rows.
struct RowOfParts {
    const MergeInputs &in;
    const MergeStages &s;
    Expr at;  // query of a row
    Type type = in.lse.type();
    Expr zero = make_const(type, 0), one = make_const(type, 1);

    Expr lse_of(const Expr &part) const { return in.lse(at, s.h, s.b, part); }

    Expr part_number(int n) const { return min(in.first + n, in.parts - 1); }
    // exp(lse of a part - largest lse): 1 of the part that has the largest, so that infinities keep their meaning.
    Expr weight(const MergeShares &all, const Expr &part) const {
        const Expr x = lse_of(part);
        const Expr smaller = exp2_nonpositive(x - all.largest(s.i, s.h, s.b), make_const(type, std::numbers::log2e));
        return strict_float(select(is_minus_infinity(x), zero, all.place(s.i, s.h, s.b) == part, one, smaller));
    }
    // A Func of the row, folded over the parts; next(so far, part).
    Func over_parts(const std::string &name, const Expr &first, const std::function<Expr(Expr, RDom)> &next,
                    const Expr &condition = {}) const {
        Func f(name);
        RDom part(0, in.parts, name + "_part");
        if (condition.defined()) part.where(condition);
        f(s.i, s.h, s.b) = first;
        f(s.i, s.h, s.b) = next(f(s.i, s.h, s.b), part);
        return f;
    }
    // Sum of exp(lse - largest lse) over all parts, in their order: of the parts to add, where these are all.
    Expr sum_of_exp(const MergeShares &all) const {
        Expr of_added = all.weight[0](s.i, s.h, s.b);
        for (int n = 1; n < merged_at_once; n++)
            of_added = select(in.parts > n, of_added + all.weight[n](s.i, s.h, s.b), of_added);
        return strict_float(select(in.parts > merged_at_once, all.sum(s.i, s.h, s.b), of_added));
    }
    MergeShares shares(const std::string &suffix) const {
        MergeShares all;
        // A comparison with a NaN is false.
        all.largest = over_parts("largest" + suffix, lse_of(0), [&](const Expr &so_far, const RDom &part) {
            const Expr x = lse_of(part), stays = strict_float(so_far >= x);
            return reinterpret(type, select(stays, bits_of(so_far), bits_of(x)));
        });
        all.place = over_parts("place" + suffix, in.parts, [&](const Expr &so_far, const RDom &part) {
            return min(so_far, select(bits_of(lse_of(part)) == bits_of(all.largest(s.i, s.h, s.b)), part, in.parts));
        });
        all.count = over_parts("count" + suffix, 0, [&](const Expr &so_far, const RDom &part) {
            return so_far + select(is_minus_infinity(lse_of(part)), 0, 1);
        });
        all.last = over_parts("last" + suffix, lse_of(0), [&](const Expr &so_far, const RDom &part) {
            const Expr x = lse_of(part);
            return reinterpret(type, select(is_minus_infinity(x), bits_of(so_far), bits_of(x)));
        });
        all.sum = over_parts(
            "sum_of_exp" + suffix, zero,
            [&](const Expr &so_far, const RDom &part) { return strict_float(so_far + weight(all, part)); },
            in.parts > merged_at_once);
        for (int n = 0; n < merged_at_once; n++) {
            all.weight[n] = Func("weight" + std::to_string(n) + suffix);
            all.weight[n](s.i, s.h, s.b) = weight(all, part_number(n));
        }
        for (int n = 0; n < merged_at_once; n++) {
            all.empty[n] = Func("empty" + std::to_string(n) + suffix);
            all.share[n] = Func("share" + std::to_string(n) + suffix);
            all.empty[n](s.i, s.h, s.b) = is_minus_infinity(lse_of(part_number(n)));
            // The only part with keys stays as it is.
            all.share[n](s.i, s.h, s.b) =
                strict_float(select(all.count(s.i, s.h, s.b) <= 1, one, all.weight[n](s.i, s.h, s.b) / sum_of_exp(all)));
        }
        return all;
    }
};

// Sum of the rows of the parts, weighted by their shares. The row of a part without keys may hold any values. Strict: 0 must
// not become 0 times the row.
Expr weighted_sum(const MergeInputs &in, const MergeStages &s, const MergeShares &shares) {
    const Type type = in.lse.type();
    const auto of_part = [&](int n) {
        const Expr row = cast(type, in.out[n](s.d, s.i, s.h, s.b));
        return select(shares.empty[n](s.i, s.h, s.b), make_const(type, 0), shares.share[n](s.i, s.h, s.b) * row);
    };
    Expr sum = select(in.first > 0, in.sum_before(s.d, s.i, s.h, s.b) + of_part(0), of_part(0));
    for (int n = 1; n < merged_at_once; n++) sum = select(in.count > n, sum + of_part(n), sum);
    return strict_float(sum);
}

}  // namespace

MergeStages merge_stages(const MergeInputs &in, Expr queries, Type stored) {
    MergeStages s;
    const Var d = s.d, i = s.i, h = s.h, b = s.b;
    const RowOfParts row{in, s, min(i, queries - 1)};
    s.of_out = row.shares("_of_out"), s.of_sum = row.shares("_of_sum"), s.of_lse = row.shares("_of_lse");
    s.out = Func("out_stage"), s.sum = Func("sum_stage"), s.lse = Func("lse_stage");
    s.out(d, i, h, b) = narrowed(stored, weighted_sum(in, s, s.of_out));
    s.sum(d, i, h, b) = weighted_sum(in, s, s.of_sum);

    const Expr sum = row.sum_of_exp(s.of_lse), largest = s.of_lse.largest(i, h, b), last = s.of_lse.last(i, h, b);
    // log() of a NaN may be a number.
    const Expr of_all = select(is_nan(sum), bits_of(sum), bits_of(strict_float(largest + log(sum))));
    s.lse(i, h, b) = reinterpret(sum.type(), select(s.of_lse.count(i, h, b) <= 1, bits_of(last), of_all));
    return s;
}

}  // namespace attune
