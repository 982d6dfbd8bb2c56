// Rounding to the nearest integer, as a Halide expression. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// What a number is added to for its sum to be rounded to an integer, and to hold that as its lowest bits; and the sum, for |x|
// up to a quarter of 2^24 (f64: 2^53).
inline Halide::Expr nearest_unit(Halide::Type type) {
    return Halide::Internal::make_const(type, type.bits() == 32 ? 0x1.8p23 : 0x1.8p52);
}
inline Halide::Expr nearest_sum(const Halide::Expr &x) { return Halide::strict_float(x + nearest_unit(x.type())); }

// The integer nearest to x, ties to even, in the same range; NaN gives NaN. round() is a call for each lane where a target has
// no instruction for it, and is split in halves of a vector for AVX-512.
inline Halide::Expr nearest(const Halide::Expr &x) {
    return Halide::strict_float((x + nearest_unit(x.type())) - nearest_unit(x.type()));
}

}  // namespace attune
