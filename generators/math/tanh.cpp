// SPDX-License-Identifier: MIT
#include "generators/math/tanh.h"
#include "generators/math/nearest.h"
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Horner's scheme, highest power first.
Expr polynomial(const std::vector<double> &coefficients, const Expr &x) {
    Expr p;
    for (double c : coefficients) p = p.defined() ? p * x + make_const(x.type(), c) : make_const(x.type(), c);
    return p;
}

}  // namespace

namespace {

Expr tanh_f32(Expr x) {
    // x P(x^2) / Q(x^2), of least relative error on |x| <= limit: 2.1e-8. Beyond the limit, where the quotient happens to be 1
    // with and without fused multiply-adds, tanh rounds to 1. All coefficients are positive, so nothing cancels. Division
    // costs less than an approximate reciprocal and its Newton step: 4.8 against 4.0 G/s on a Zen 4 core, and 3.9 for
    // 1 - 2 / (e^2x + 1).
    static const std::vector<double> p = {1.3354997868936659e-08, 2.0609362167165268e-05, 0.0034956068113608228,
                                          0.1338104196448707, 0.9999999796025116};
    static const std::vector<double> q = {7.776706826607485e-07, 0.0003285664177868615, 0.02587705508960278,
                                          0.46714357597031375, 1.0};
    const Expr limit = 9.01f;
    // Comparisons that are false for NaN: min() and max() may drop it.
    x = strict_float(select(x > limit, limit, x));
    x = strict_float(select(x < -limit, -limit, x));
    const Expr square = x * x;
    return x * polynomial(p, square) / polynomial(q, square);
}

Expr tanh_f64(Expr x) {
    // Near 0 the continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ... 15))), error 1.1e-17 for |x| <= 0.65, written as x plus
    // a small part to keep the quotient's rounding small. Elsewhere 1 - 2 / (e^2|x| + 1), with little cancellation.
    static const std::vector<double> p = {-1.0 / 2027025, -2.0 / 6825, -1.0 / 45, -1.0 / 3};
    static const std::vector<double> q = {1.0 / 2027025, 2.0 / 6435, 1.0 / 39, 7.0 / 15, 1.0};
    const Type t = x.type(), bits = UInt(64);
    auto value = [&](double v) { return make_const(t, v); };
    const Expr sign = reinterpret(bits, x) & make_const(bits, uint64_t(1) << 63);
    Expr size = reinterpret(t, reinterpret(bits, x) ^ sign);
    size = strict_float(select(size > value(20), value(20), size));  // keeps NaN
    const Expr square = size * size, near = size + size * (square * polynomial(p, square) / polynomial(q, square));
    const Expr far = value(1) - value(2) / (exp_of(size + size) + value(1));
    return reinterpret(t, reinterpret(bits, strict_float(select(size < value(0.65), near, far))) | sign);
}

}  // namespace

Expr tanh_precise(Expr x) { return x.type().bits() == 32 ? tanh_f32(x) : tanh_f64(x); }

Expr exp_of(Expr x) {
    // Minimax polynomials of e^r on +-ln 2 / 2 (2.0e-9, 3.4e-18). Cody-Waite reduction: ln 2 is split so that n times its high
    // part is exact; rounding x log2(e) alone would cost 4e-6 at 44. strict_float keeps LLVM from adding up the parts.
    static const std::vector<double> r32 = {0.0013843629086919691,
                                            0.0083741631696836433,
                                            0.04166800285056708,
                                            0.16666431172816414,
                                            0.49999994204462337,
                                            1.0000000321829888,
                                            1.0};
    static const std::vector<double> r64 = {2.4991489974779977e-8,
                                            2.7631040214469707e-7,
                                            2.7557626726258775e-6,
                                            2.4801490620879769e-5,
                                            0.00019841269436506774,
                                            0.0013888888946366441,
                                            0.0083333333335499481,
                                            0.041666666666517775,
                                            0.16666666666666217,
                                            0.50000000000000125,
                                            1.0,
                                            1.0};
    const Type t = x.type();
    const bool narrow = t.bits() == 32;
    const Type bits = Int(t.bits());
    const Expr log2_e = make_const(t, std::numbers::log2e);
    const Expr ln2_high = make_const(t, narrow ? 0.693359375 : 6.93147180369123816490e-01);
    const Expr ln2_low = make_const(t, narrow ? -2.12194440054690583e-4 : 1.90821492927058770002e-10);
    const Expr n = nearest(x * log2_e);
    const Expr r = strict_float((x - n * ln2_high) - n * ln2_low);
    const Expr p = polynomial(narrow ? r32 : r64, r);
    return reinterpret(t, reinterpret(bits, p) + (cast(bits, n) << (narrow ? 23 : 52)));
}

}  // namespace attune
