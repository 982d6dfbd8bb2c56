// SPDX-License-Identifier: MIT
#include "generators/attention/equations/masked.h"
#include "generators/math/bits.h"
#include <limits>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

Expr lowest_score(const Type &type) { return make_const(type, type.bits() == 32 ? -3e38 : -1e308); }
Expr masked_score(const Type &type) {
    return make_const(type,
                      type.bits() == 32 ? double(std::numeric_limits<float>::lowest()) : std::numeric_limits<double>::lowest());
}
// "Less" and not "less or equal": code generation turns the latter into "not greater", which is true for NaN.
Expr is_masked(const Expr &score) { return strict_float(score < lowest_score(score.type())); }

Expr kept_or_marked(const Expr &kept, const Expr &x) {
    return reinterpret(x.type(), select(kept, bits_of(x), sign_bit(x.type())));
}
Expr signed_kept_or_marked(const Expr &kept, const Expr &x) {
    return kept_or_marked(kept, reinterpret(x.type(), select(counts(x), bits_of(x), Internal::make_zero(bits_of(x).type()))));
}
Expr counts(const Expr &x) { return bits_of(x) != sign_bit(x.type()); }
Expr marked_zero(const Expr &x) { return reinterpret(x.type(), bits_of(x) & sign_bit(x.type())); }

Expr minus_infinity_bits(Type type) {
    return type.bits() == 32 ? make_const(UInt(32), 0xff800000u) : make_const(UInt(64), 0xfff0000000000000u);
}

}  // namespace attune
