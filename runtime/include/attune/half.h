// SPDX-License-Identifier: MIT
// Conversions of 16-bit types: exact to float; from float or double rounded once, to nearest with ties to even.
#pragma once
#include "attune/tensor.h"
#include <cstdint>

namespace attune {

// std::bit_cast, which C++17 lacks; GCC 11 and clang 9 know the builtin in any version of the language.
template<typename To, typename From> constexpr To bits_as(From x) { return __builtin_bit_cast(To, x); }

constexpr float to_float(bfloat16 x) { return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16); }

constexpr float to_float(float16 x) {
    const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
    const std::uint32_t exponent = x.bits >> 10 & 31u, fraction = x.bits & 0x3ffu;
    if (exponent == 0) {  // zero, or subnormal: a multiple of 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 255u : exponent + (127u - 15u);
    return bits_as<float>(sign | wide << 23 | fraction << 13);
}

// The bits of x in a 16-bit format. Numbers beyond the largest finite one become infinite, NaN becomes a quiet NaN.
template<int exponent_bits> constexpr std::uint16_t rounded_to_16_bits(double x) {
    constexpr int fraction_bits = 15 - exponent_bits, shift = 52 - fraction_bits;
    constexpr std::uint64_t infinity = (std::uint64_t{1} << 15) - (std::uint64_t{1} << fraction_bits);
    constexpr int lowest =
        1023 - ((1 << (exponent_bits - 1)) - 2);  // the double's exponent field of the smallest normal number
    const auto bits = bits_as<std::uint64_t>(x);
    const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
    const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
    const int exponent = static_cast<int>(magnitude >> 52);
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 2047) {
        const std::uint64_t payload = fraction ? fraction >> shift | std::uint64_t{1} << (fraction_bits - 1) : 0;
        return static_cast<std::uint16_t>(sign | infinity | payload);
    }
    // Below the smallest normal number the fraction loses bits; a carry out of the fraction rightly raises the exponent.
    const int lost = exponent < lowest ? shift + lowest - exponent : shift;
    if (lost > 53) return sign;
    const std::uint64_t kept =
        exponent < lowest ? fraction | std::uint64_t{1} << 52 : magnitude - (static_cast<std::uint64_t>(lowest - 1) << 52);
    const std::uint64_t half = std::uint64_t{1} << (lost - 1), odd = kept >> lost & 1;
    const std::uint64_t rounded = (kept + half - 1 + odd) >> lost;
    return static_cast<std::uint16_t>(sign | (rounded < infinity ? rounded : infinity));
}

constexpr bfloat16 to_bfloat16(double x) { return {rounded_to_16_bits<8>(x)}; }
constexpr float16 to_float16(double x) { return {rounded_to_16_bits<5>(x)}; }

}  // namespace attune
