// SPDX-License-Identifier: MIT
#include "generators/math/bf16_parts.h"
#include "generators/math/bits.h"

namespace attune {
using namespace Halide;

namespace {

Expr upper_half(const Expr &bits) { return bits & cast<uint32_t>(Expr(0xffff0000u)); }
Expr cut_off(const Expr &x) { return reinterpret<float>(upper_half(bits_of(x))); }

// x without its first n parts.
Expr rest_of(const Expr &x, int n) {
    Expr rest = x;
    for (; n > 0; n--) rest = strict_float(rest - cut_off(rest));
    return rest;
}

// The next bf16 below the magnitude of x; 0 for 0.
Expr below(const Expr &x) {
    const Expr bits = bits_of(x);
    return reinterpret<float>(upper_half(select((bits << 1) == 0, bits, bits - 1)));
}

// Part n of a finite x of type `type`, before it is truncated.
Expr part_of(const Expr &x, int n, const Type &type) {
    if (bf16_parts_of(type) == 3) return rest_of(x, n);
    return n == 0 ? below(x) : strict_float(x - below(x));
}

Expr pair_of_upper_halves(const Expr &first, const Expr &second) { return (first >> 16) | upper_half(second); }

Expr one_of_its_sign(const Expr &x) { return reinterpret<float>((bits_of(x) & sign_bit(Float(32))) | 0x3f800000); }

std::vector<Expr> parts_up_to(int last, const Expr &x, const Type &type, const RoundToBf16 &round) {
    const Expr finite = select(is_finite_float(x), x, one_of_its_sign(x));
    std::vector<Expr> parts;
    for (int n = 0; n < last; n++) parts.push_back(round(cut_off(part_of(finite, n, type))));
    parts.push_back(round(select(is_finite_float(x), part_of(finite, last, type), x)));
    return parts;
}

}  // namespace

std::vector<Expr> bf16_parts(const Expr &x, const RoundToBf16 &round) {
    if (x.type().is_bfloat()) return {x};
    return parts_up_to(bf16_parts_of(x.type()) - 1, cast<float>(x), x.type(), round);
}

std::vector<Expr> first_bf16_parts(const Expr &x, int parts, const RoundToBf16 &round) {
    return parts == 1 ? std::vector<Expr>{round(x)} : parts_up_to(parts - 1, x, Float(32), round);
}

Expr pair_of_parts(const Expr &first, const Expr &second, int n, const Type &type) {
    auto part = [&](const Expr &x) {
        const Expr bits = bits_of(part_of(select(is_finite_float(x), x, one_of_its_sign(x)), n, type));
        return n < bf16_parts_of(type) - 1 ? bits : select(is_finite_float(x), bits, bits_of(strict_float(x + x)));
    };
    return pair_of_upper_halves(part(first), part(second));
}

Expr pair_of_finite_parts(const Expr &first, const Expr &second, int n) {
    return pair_of_upper_halves(bits_of(rest_of(first, n)), bits_of(rest_of(second, n)));
}

std::vector<std::pair<int, int>> products_of_parts(int parts) {
    if (parts == 1) return {{0, 0}};
    if (parts == 2) return {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
    return {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
}

std::vector<std::pair<int, int>> products_with_parts_of_weights(int parts) {
    if (parts == 2) return {{0, 1}, {1, 0}, {0, 0}};
    return products_of_parts(parts);
}

void add_product(FuncRef f, const std::vector<std::pair<int, int>> &products, const std::vector<Expr> &x,
                 const std::vector<Expr> &y) {
    for (auto [n, m] : products) f += widened_product(x[n], y[m]);
}

std::vector<Expr> parts_at(const FuncRef &f) {
    if (f.size() == 1) return {f};
    std::vector<Expr> all;
    for (int n = 0; n < int(f.size()); n++) all.push_back(f[n]);
    return all;
}

std::vector<Expr> parts_at(const std::vector<Func> &parts, const std::vector<Expr> &at) {
    std::vector<Expr> all;
    for (const Func &part : parts) all.push_back(part(at));
    return all;
}

}  // namespace attune
