// A result in the type that it is stored in. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// x rounded to `stored`, f32, f64, bf16 or f16, ties to even; NaN stays NaN. Halide's own rounding to bf16 adds to the bits of
// x, which makes a NaN of all ones, such as memory filled with 0xff holds, a zero.
inline Halide::Expr narrowed(const Halide::Type &stored, const Halide::Expr &x) {
    using namespace Halide;
    if (!stored.is_bfloat()) return cast(stored, x);
    const Expr quiet = reinterpret(x.type(), Internal::make_const(UInt(32), 0x7fc00000u));
    return cast(stored, strict_float(select(is_nan(x), quiet, x)));
}

}  // namespace attune
