// SPDX-License-Identifier: MIT
// Numbers of quantised rows (pool.h). No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// x = q * scale.
inline Halide::Expr dequantised_int8(const Halide::Expr &q, const Halide::Expr &scale) {
    return Halide::cast<float>(Halide::cast<int8_t>(q)) * scale;
}

// x = minimum + q * scale, where q is the low four bits of a byte (the even one of two channels) or, with odd = 1, the high
// four.
inline Halide::Expr dequantised_int4(const Halide::Expr &byte, const Halide::Expr &odd, const Halide::Expr &minimum,
                                     const Halide::Expr &scale) {
    const Halide::Expr q = (byte >> Halide::cast<uint8_t>(4 * odd)) & Halide::cast<uint8_t>(15);
    return minimum + Halide::cast<float>(q) * scale;
}

}  // namespace attune
