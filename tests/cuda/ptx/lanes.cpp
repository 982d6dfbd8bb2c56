// SPDX-License-Identifier: MIT
#include "lanes.h"
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ptx {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f16 = _Float16;

// Calls f(a zero of the named type); false if there is no such type.
template<typename F> bool with_type(const std::string &name, const F &f) {
    if (name == "f32") return f(float()), true;
    if (name == "f64") return f(double()), true;
    if (name == "pred" || name == "b8" || name == "u8") return f(u8()), true;
    if (name == "s8") return f(s8()), true;
    if (name == "b16" || name == "u16") return f(u16()), true;
    if (name == "s16") return f(s16()), true;
    if (name == "b32" || name == "u32") return f(u32()), true;
    if (name == "s32") return f(s32()), true;
    if (name == "b64" || name == "u64") return f(u64()), true;
    if (name == "s64") return f(s64()), true;
    return false;
}

template<typename T> Lanewise of_floats(const std::string &op) {
    if (op == "add") return computes<T, T, T>([](T x, T y) { return x + y; });
    if (op == "sub") return computes<T, T, T>([](T x, T y) { return x - y; });
    if (op == "mul") return computes<T, T, T>([](T x, T y) { return x * y; });
    if (op == "div") return computes<T, T, T>([](T x, T y) { return x / y; });
    if (op == "fma") return computes<T, T, T, T>([](T x, T y, T z) { return std::fma(x, y, z); });
    if (op == "min") return computes<T, T, T>([](T x, T y) { return std::fmin(x, y); });
    if (op == "max") return computes<T, T, T>([](T x, T y) { return std::fmax(x, y); });
    if (op == "neg") return computes<T, T>([](T x) { return -x; });
    if (op == "abs") return computes<T, T>([](T x) { return std::fabs(x); });
    if (op == "rcp") return computes<T, T>([](T x) { return T(1) / x; });
    if (op == "sqrt") return computes<T, T>([](T x) { return std::sqrt(x); });
    if (op == "ex2") return computes<T, T>([](T x) { return std::exp2(x); });
    if (op == "lg2") return computes<T, T>([](T x) { return std::log2(x); });
    return {};
}

// The type of a product in twice the width.
template<typename T> using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;

template<typename T> Lanewise of_integers(const Instruction &in) {
    const std::string &op = in.operation;
    if (in.has("wide")) {
        if (op == "mul") return computes<Wide<T>, T, T>([](T x, T y) { return Wide<T>(x) * Wide<T>(y); });
        if (op == "mad")
            return computes<Wide<T>, T, T, Wide<T>>([](T x, T y, Wide<T> z) { return Wide<T>(x) * Wide<T>(y) + z; });
        return {};
    }
    if (in.has("hi")) {
        if constexpr (sizeof(T) <= 4)
            if (op == "mul") return computes<T, T, T>([](T x, T y) { return T(Wide<T>(x) * Wide<T>(y) >> 8 * sizeof(T)); });
        return {};
    }
    // Unsigned arithmetic of the width: it wraps around.
    using U = std::make_unsigned_t<T>;
    if (op == "add") return computes<U, U, U>([](U x, U y) { return U(x + y); });
    if (op == "sub") return computes<U, U, U>([](U x, U y) { return U(x - y); });
    if (op == "mul") return computes<U, u64, u64>([](u64 x, u64 y) { return U(x * y); });
    if (op == "mad") return computes<U, u64, u64, u64>([](u64 x, u64 y, u64 z) { return U(x * y + z); });
    if (op == "and") return computes<U, U, U>([](U x, U y) { return U(x & y); });
    if (op == "or") return computes<U, U, U>([](U x, U y) { return U(x | y); });
    if (op == "xor") return computes<U, U, U>([](U x, U y) { return U(x ^ y); });
    if (op == "not" && in.type == "pred") return computes<u8, u8>([](u8 x) { return u8(x ^ 1); });
    if (op == "not") return computes<U, U>([](U x) { return U(~x); });
    if (op == "neg") return computes<U, U>([](U x) { return U(-x); });
    if (op == "abs") return computes<T, T>([](T x) { return x < T(0) ? T(-x) : x; });
    if (op == "min") return computes<T, T, T>([](T x, T y) { return std::min(x, y); });
    if (op == "max") return computes<T, T, T>([](T x, T y) { return std::max(x, y); });
    if (op == "div") return computes<T, T, T>([](T x, T y) { return y == T(0) ? T(-1) : T(x / y); });
    if (op == "rem") return computes<T, T, T>([](T x, T y) { return y == T(0) ? x : T(x % y); });
    constexpr u32 width = 8 * sizeof(T);
    if (op == "shl") return computes<U, U, u32>([](U x, u32 n) { return n >= width ? U(0) : U(x << n); });
    if (op == "shr") return computes<T, T, u32>([](T x, u32 n) { return n >= width ? T(x < T(0) ? -1 : 0) : T(x >> n); });
    if (op == "bfe" && std::is_unsigned_v<T>)
        return computes<T, T, u32, u32>([](T x, u32 first, u32 count) {
            const u64 field = (first & 255) >= width ? 0 : u64(x) >> (first & 255);
            return T((count & 255) >= width ? field : field & ((u64(1) << (count & 255)) - 1));
        });
    return {};
}

// Instructions of 16-bit floats, before LLVM widens them: it removes signs, and asks whether two are equal.
Lanewise of_f16(const Instruction &in) {
    if (in.operation == "abs") return computes<u16, u16>([](u16 x) { return u16(x & 0x7fff); });
    if (in.operation == "neg") return computes<u16, u16>([](u16 x) { return u16(x ^ 0x8000); });
    if (in.operation == "setp" && in.parts[1] == "eq" && in.operands.size() == 3)
        return computes<u8, u16, u16>([](u16 x, u16 y) { return u8(std::bit_cast<f16>(x) == std::bit_cast<f16>(y)); });
    return {};
}

// Comparisons; with "u" at the end they also hold if one value is a NaN.
template<typename T> Lanewise comparison(const std::string &name) {
    if constexpr (std::is_floating_point_v<T>) {
        if (name == "num") return computes<u8, T, T>([](T x, T y) { return u8(x == x && y == y); });
        if (name == "nan") return computes<u8, T, T>([](T x, T y) { return u8(x != x || y != y); });
        if (name == "ltu") return computes<u8, T, T>([](T x, T y) { return u8(!(x >= y)); });
        if (name == "leu") return computes<u8, T, T>([](T x, T y) { return u8(!(x > y)); });
        if (name == "gtu") return computes<u8, T, T>([](T x, T y) { return u8(!(x <= y)); });
        if (name == "geu") return computes<u8, T, T>([](T x, T y) { return u8(!(x < y)); });
        if (name == "equ") return computes<u8, T, T>([](T x, T y) { return u8(!(x < y || x > y)); });
        if (name == "neu") return computes<u8, T, T>([](T x, T y) { return u8(x != y); });
        if (name == "ne") return computes<u8, T, T>([](T x, T y) { return u8(x < y || x > y); });
    }
    if (name == "eq") return computes<u8, T, T>([](T x, T y) { return u8(x == y); });
    if (name == "ne") return computes<u8, T, T>([](T x, T y) { return u8(x != y); });
    if (name == "lt") return computes<u8, T, T>([](T x, T y) { return u8(x < y); });
    if (name == "le") return computes<u8, T, T>([](T x, T y) { return u8(x <= y); });
    if (name == "gt") return computes<u8, T, T>([](T x, T y) { return u8(x > y); });
    if (name == "ge") return computes<u8, T, T>([](T x, T y) { return u8(x >= y); });
    return {};
}

// Roundings to an integer.
enum class Rounding { none, down, up, nearest, to_zero };
Rounding rounding_of(const Instruction &in) {
    if (in.has("rmi")) return Rounding::down;
    if (in.has("rpi")) return Rounding::up;
    if (in.has("rni")) return Rounding::nearest;
    return in.has("rzi") ? Rounding::to_zero : Rounding::none;
}

template<typename To, typename From> To converted(From x, Rounding rounding) {
    if constexpr (std::is_floating_point_v<From>) {
        if (rounding == Rounding::down) x = std::floor(x);
        if (rounding == Rounding::up) x = std::ceil(x);
        if (rounding == Rounding::nearest) x = std::nearbyint(x);
        if (rounding == Rounding::to_zero) x = std::trunc(x);
        if constexpr (std::is_integral_v<To>) {
            if (x != x) return To(0);
            constexpr double low = double(std::numeric_limits<To>::min()), high = double(std::numeric_limits<To>::max());
            if (double(x) <= low) return std::numeric_limits<To>::min();
            if (double(x) >= high) return std::numeric_limits<To>::max();
        }
    }
    return static_cast<To>(x);
}

// bf16 of a float, ties to even; PTX has one NaN.
u16 bf16_of(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    return x != x ? u16(0x7fff) : u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

Lanewise conversion(const Instruction &in) {
    const std::string &to = in.parts[in.parts.size() - 2], &from = in.type;
    // 16-bit types have conversions only.
    if (to == "f16" && from == "f32") return computes<u16, float>([](float x) { return std::bit_cast<u16>(f16(x)); });
    if (to == "f16" && from == "f64") return computes<u16, double>([](double x) { return std::bit_cast<u16>(f16(x)); });
    if (to == "f32" && from == "f16") return computes<float, u16>([](u16 x) { return float(std::bit_cast<f16>(x)); });
    if (to == "f16x2" && from == "f32")
        return computes<u32, float, float>(
            [](float high, float low) { return u32(std::bit_cast<u16>(f16(high))) << 16 | std::bit_cast<u16>(f16(low)); });
    if (to == "bf16x2" && from == "f32")
        return computes<u32, float, float>([](float high, float low) { return u32(bf16_of(high)) << 16 | bf16_of(low); });
    Lanewise result;
    const Rounding rounding = rounding_of(in);
    with_type(from, [&]<typename From>(From) {
        with_type(to, [&]<typename To>(To) {
            result = computes<To, From>([rounding](From x) { return converted<To>(x, rounding); });
        });
    });
    return result;
}

// Moves one element, packs a vector into one number, or unpacks one.
void move(Registers &r, const Instruction &in, std::uint32_t mask, int bytes) {
    const auto &to = in.operands[0].places, &from = in.operands[1].places;
    if (to.size() == 1 && from.size() == 1) {
        const u64 *x = r.of(from[0]);
        u64 *result = r.of(to[0]);
        return each_own_lane(mask, [&](int lane) { result[lane] = x[lane]; });
    }
    const std::size_t parts = std::max(to.size(), from.size());
    const int bits = 8 * bytes / static_cast<int>(parts);
    const u64 all = bits == 64 ? ~u64(0) : (u64(1) << bits) - 1;
    each_lane(mask, [&](int lane) {
        u64 whole = 0;
        for (std::size_t n = 0; n < from.size(); n++) {
            const u64 x = r.at(from[n], lane);
            whole |= from.size() > 1 ? (x & all) << (bits * static_cast<int>(n)) : x;
        }
        for (std::size_t n = 0; n < to.size(); n++)
            r.at(to[n], lane) = to.size() > 1 ? whole >> (bits * static_cast<int>(n)) & all : whole;
    });
}

}  // namespace

Lanewise lanewise(const Instruction &in) {
    const std::string &op = in.operation;
    Lanewise result;
    if (op == "cvta") return [](Registers &r, const Instruction &i, std::uint32_t mask) { move(r, i, mask, 8); };
    if (op == "cvt") return conversion(in);
    if (in.type == "f16") return of_f16(in);
    with_type(in.type, [&]<typename T>(T) {
        if (op == "mov") {
            result = [](Registers &r, const Instruction &i, std::uint32_t mask) { move(r, i, mask, sizeof(T)); };
        } else if (op == "selp") {
            result = computes<T, T, T, u8>([](T x, T y, u8 first) { return first & 1 ? x : y; });
        } else if (op == "setp") {
            if (in.parts.size() == 3 && in.operands.size() == 3) result = comparison<T>(in.parts[1]);
        } else if constexpr (std::is_floating_point_v<T>) {
            result = of_floats<T>(op);
        } else {
            result = of_integers<T>(in);
        }
    });
    return result;
}

}  // namespace ptx
