// SPDX-License-Identifier: MIT
// Rounding to the nearest integer, as a Halide expression. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// 1.5 times 2 to the number of mantissa bits: a small number added to this unit is rounded to an integer.
inline double rounding_unit(const Halide::Type &type) { return type.bits() == 32 ? 0x1.8p23 : 0x1.8p52; }

// The integer nearest to x, ties to even, for |x| up to a quarter of 2^24 (f64: 2^53); NaN gives NaN. Halide's round() is a
// call per lane on targets without an instruction for it, and is split into half vectors for AVX-512.
inline Halide::Expr nearest(const Halide::Expr &x) {
    const Halide::Expr unit = Halide::Internal::make_const(x.type(), rounding_unit(x.type()));
    return Halide::strict_float((x + unit) - unit);
}

}  // namespace attune
