// SPDX-License-Identifier: MIT
// 16-bit elements for computations in tests: they convert to float implicitly, and from a number by rounding.
#pragma once
#include "attune/half.h"
#include <limits>
#include <type_traits>

namespace attune_test {

template<typename Bits> class Half {
public:
    constexpr Half() = default;
    template<typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    constexpr Half(Number x) : stored_(rounded(static_cast<double>(x))) {}
    static constexpr Half of_bits(std::uint16_t bits) {
        Half x;
        x.stored_.bits = bits;
        return x;
    }
    constexpr operator float() const { return attune::to_float(stored_); }
    constexpr std::uint16_t bits() const { return stored_.bits; }

private:
    static constexpr Bits rounded(double x) {
        if constexpr (std::is_same_v<Bits, attune::bfloat16>)
            return attune::to_bfloat16(x);
        else
            return attune::to_float16(x);
    }
    Bits stored_{};
};
using BFloat16 = Half<attune::bfloat16>;
using Float16 = Half<attune::float16>;

template<typename T> inline constexpr bool is_half = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// The type in which sums over elements of type T are kept: lse has it, and the plain computation takes its steps in it.
template<typename T> using Sum = std::conditional_t<is_half<T>, float, T>;

}  // namespace attune_test

namespace attune {
template<> inline constexpr bool is_element<attune_test::BFloat16> = true;
template<> inline constexpr bool is_element<attune_test::Float16> = true;
template<> constexpr DType dtype_of<attune_test::BFloat16>() { return DType::bf16; }
template<> constexpr DType dtype_of<attune_test::Float16>() { return DType::f16; }
}  // namespace attune

// The members of numeric_limits that tests use.
template<typename Bits> class std::numeric_limits<attune_test::Half<Bits>> {
    using T = attune_test::Half<Bits>;
    static constexpr int fraction_bits = std::is_same_v<Bits, attune::bfloat16> ? 7 : 10;
    static constexpr std::uint16_t infinite = 0x8000 - (1 << fraction_bits);

public:
    static constexpr bool is_specialized = true;
    static constexpr T epsilon() { return T(1.0 / (1 << fraction_bits)); }
    static constexpr T max() { return T::of_bits(infinite - 1); }
    static constexpr T infinity() { return T::of_bits(infinite); }
    static constexpr T quiet_NaN() { return T::of_bits(infinite | 1 << (fraction_bits - 1)); }
};
