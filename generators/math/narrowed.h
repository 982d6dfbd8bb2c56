// SPDX-License-Identifier: MIT
// Rounding of a result to its stored type. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// x rounded to `stored`: f32, f64, bf16 or f16, ties to even; NaN stays NaN. Where Halide rounds by integer operations, a NaN
// of all ones, such as memory filled with 0xff holds, becomes zero (bf16), and any NaN becomes infinity (f16).
inline Halide::Expr narrowed(const Halide::Type &stored, const Halide::Expr &x) {
    using namespace Halide;
    if (stored.bits() != 16) return cast(stored, x);
    const Expr quiet = Internal::make_const(UInt(16), stored.is_bfloat() ? 0x7fc0 : 0x7e00);
    return reinterpret(stored, select(strict_float(is_nan(x)), quiet, reinterpret(UInt(16), cast(stored, x))));
}

}  // namespace attune
