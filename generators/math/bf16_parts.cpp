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

Expr one_of_its_sign(const Expr &x) { return reinterpret<float>((bits_of(x) & sign_bit(Float(32))) | 0x3f800000); }

}  // namespace

std::vector<Expr> bf16_parts(const Expr &x, const RoundToBf16 &round) {
    if (x.type().is_bfloat()) return {x};
    const Expr finite = select(is_finite_float(x), x, one_of_its_sign(x));
    return {round(cut_off(finite)), round(cut_off(rest_of(finite, 1))),
            round(select(is_finite_float(x), rest_of(finite, 2), x))};
}

Expr pair_of_parts(const Expr &first, const Expr &second, int n, bool never_infinite) {
    auto part = [&](const Expr &x) {
        const Expr left = bits_of(rest_of(never_infinite ? x : select(is_finite_float(x), x, one_of_its_sign(x)), n));
        return never_infinite || n < 2 ? left : select(is_finite_float(x), left, bits_of(strict_float(x + x)));
    };
    return (part(first) >> 16) | upper_half(part(second));
}

std::vector<std::pair<int, int>> products_of_parts(int parts) {
    if (parts == 1) return {{0, 0}};
    return {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
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
