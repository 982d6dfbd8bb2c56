// SPDX-License-Identifier: MIT
// bf16 as its bits, for code generation without a bf16 type. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

inline Halide::Expr bf16_bits_widened(const Halide::Expr &bits) {
    return Halide::reinterpret<float>(Halide::cast<uint32_t>(bits) << 16);
}

// Bits of x rounded to bf16, ties to even. A NaN is recognised by its bits and stays a NaN.
inline Halide::Expr bf16_bits_of(const Halide::Expr &x) {
    using namespace Halide;
    const Expr bits = reinterpret<uint32_t>(x);
    const Expr rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return cast<uint16_t>(select((bits & 0x7fffffff) > 0x7f800000, cast<uint32_t>(0x7fc0), rounded));
}

// Elements in memory: the type that stands for `type` there, an element as f32, and f32 as an element of a held type.
inline Halide::Type held_type(const Halide::Type &type) { return type.is_bfloat() ? Halide::UInt(16) : type; }
inline Halide::Expr widened(const Halide::Expr &element) {
    return element.type().is_uint() ? bf16_bits_widened(element) : Halide::cast<float>(element);
}
inline Halide::Expr stored(const Halide::Type &held, const Halide::Expr &x) {
    return held.is_uint() ? bf16_bits_of(x) : Halide::cast(held, x);
}

// Two neighbours as one 32-bit number, the first in its lower half, for code that moves pairs; and element e, 0 or 1, of a
// pair. The latter is marked pure, as extract_bits() is not, so that both elements are stored at once.
inline Halide::Expr pair_of(const Halide::Expr &first, const Halide::Expr &second) {
    return Halide::concat_bits({Halide::reinterpret<uint16_t>(first), Halide::reinterpret<uint16_t>(second)});
}
inline Halide::Expr element_of_pair(const Halide::Expr &pair, const Halide::Expr &e) {
    using Halide::Internal::Call;
    return Call::make(Halide::BFloat(16), Call::extract_bits, {pair, e * 16}, Call::PureIntrinsic);
}

}  // namespace attune
