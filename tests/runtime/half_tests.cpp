// SPDX-License-Identifier: MIT
// attune/half.h: every 16-bit number becomes a float and comes back, and numbers between two of them are rounded to the nearer,
// ties to even (IEEE 754-2019, 4.3.1).
#include "tests/support/catch.h"
#include "tests/support/half_elements.h"
#include <cmath>

using namespace attune_test;

namespace {
// Definition: the value of sign, exponent and fraction of a pattern, other than NaN and infinity.
double value_of(int bits, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                           : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

template<typename T> void check_every_pattern(int exponent_bits) {
    const int infinity = 0x8000 - (1 << (15 - exponent_bits)), quiet = 1 << (14 - exponent_bits);
    int wrong = 0;
    for (int bits = 0; bits < 0x10000; bits++) {
        const float x = T::of_bits(std::uint16_t(bits));
        const int magnitude = bits & 0x7fff, back = T(x).bits();
        if (magnitude > infinity) {
            wrong += !std::isnan(x) || back != (bits | quiet);
            continue;
        }
        wrong += back != bits || std::signbit(x) != (bits >= 0x8000);
        if (magnitude == infinity)
            wrong += !std::isinf(x);
        else
            wrong += double(x) != value_of(bits, exponent_bits);
    }
    CHECK(wrong == 0);
    // Between neighbours; the neighbour of the largest number is the next one of that exponent.
    for (int bits = 0; bits < infinity; bits++) {
        const double low = value_of(bits, exponent_bits), high = value_of(bits + 1, exponent_bits), middle = (low + high) / 2;
        for (const double sign : {1.0, -1.0}) {
            const int negative = sign < 0 ? 0x8000 : 0;
            wrong += T(sign * std::nextafter(middle, low)).bits() != (bits | negative);
            wrong += T(sign * std::nextafter(middle, high)).bits() != ((bits + 1) | negative);
            wrong += T(sign * middle).bits() != ((bits + bits % 2) | negative);
        }
    }
    CHECK(wrong == 0);
    CHECK(T(1e300).bits() == infinity);
    CHECK(T(-std::numeric_limits<double>::infinity()).bits() == (infinity | 0x8000));
    CHECK(T(1e-300).bits() == 0);
    CHECK(T(-std::numeric_limits<double>::denorm_min()).bits() == 0x8000);
    CHECK(std::isnan(T(std::nan(""))));
}
}  // namespace

TEST_CASE("half: every bf16 there and back, and every rounding", "[runtime][half]") { check_every_pattern<BFloat16>(8); }
TEST_CASE("half: every f16 there and back, and every rounding", "[runtime][half]") { check_every_pattern<Float16>(5); }

TEST_CASE("half: conversions are known to the compiler", "[runtime][half]") {
    static_assert(attune::to_bfloat16(1.0).bits == 0x3f80 && attune::to_float16(-2.0).bits == 0xc000);
    static_assert(attune::to_float(attune::to_float16(0.1)) == 0.0999755859375f);
    static_assert(attune::to_float(attune::bfloat16{0x4049}) == 3.140625f);
    static_assert(std::numeric_limits<Float16>::max() == 65504.f && std::numeric_limits<BFloat16>::epsilon() == 0x1p-7f);
    CHECK(attune::dtype_of<attune::bfloat16>() == attune::DType::bf16);
    CHECK(attune::dtype_of<attune::float16>() == attune::DType::f16);
    CHECK((attune::size_of(attune::DType::bf16) == 2 && attune::size_of(attune::DType::f16) == 2));
    CHECK(std::string(attune::name_of(attune::DType::bf16)) == "bf16");
    CHECK(std::string(attune::name_of(attune::DType::f16)) == "f16");
}
