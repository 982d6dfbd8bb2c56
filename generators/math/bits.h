// SPDX-License-Identifier: MIT
// Numbers as their bits, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

inline Halide::Expr bits_of(const Halide::Expr &x) { return Halide::reinterpret(Halide::UInt(x.type().bits()), x); }

// The bits of -0 of a floating-point type, as unsigned integer.
inline Halide::Expr sign_bit(const Halide::Type &type) {
    return Halide::Internal::make_const(Halide::UInt(type.bits()), uint64_t(1) << (type.bits() - 1));
}

// The bits of the magnitude of a number, as a signed integer: magnitudes are ordered as these are, NaN above infinity.
inline Halide::Expr magnitude_bits(const Halide::Expr &x) {
    const Halide::Type bits = Halide::Int(x.type().bits());
    return Halide::reinterpret(bits, x) & bits.max();
}

// Whether a number is finite, by its bits: Halide has no test for bf16, and for f32 code generation may assume that it is.
inline Halide::Expr is_finite_float(const Halide::Expr &x) {
    const Halide::Expr infinity = Halide::cast<uint32_t>(0x7f800000);
    return (bits_of(x) & infinity) != infinity;
}
inline Halide::Expr is_finite_bf16(const Halide::Expr &x) {
    return (bits_of(x) & Halide::cast<uint16_t>(0x7fff)) < Halide::cast<uint16_t>(0x7f80);
}

}  // namespace attune
