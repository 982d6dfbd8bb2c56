// SPDX-License-Identifier: MIT
#include "generators/attention/equations/score_units.h"
#include "generators/math/bits.h"
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

// The scale is applied to the product, if before the softmax at all, and not to the query: rounding the query would cost more
// accuracy than the product saves time.
Expr ScoreUnits::scaled(const Expr &x) const {
    if (score.in_base2()) return x * cast(type, scale * make_const(Float(64), std::numbers::log2e));
    return score.scales_scores() ? x * cast(type, scale) : x;
}

Expr ScoreUnits::per_score() const {
    if (score.in_base2()) return value_of(1);
    const Expr log2e = make_const(Float(64), std::numbers::log2e), most = cast(Float(64), type.max());
    return cast(type, score.scales_scores() ? log2e : min(abs(scale) * log2e, most));
}

Expr ScoreUnits::natural(const Expr &x) const {
    if (score.in_base2()) return x * value_of(std::numbers::ln2);
    return score.scales_scores() ? x : x * cast(type, abs(scale));
}

Expr ScoreUnits::signed_query(const Expr &x) const {
    if (score.scales_scores()) return x;
    const Type bits = UInt(x.type().bits());
    return reinterpret(x.type(), bits_of(x) ^ select(scale < 0, sign_bit(x.type()), make_const(bits, 0)));
}

}  // namespace attune
