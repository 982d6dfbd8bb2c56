#include "generators/math/tanh.h"
#include "generators/math/nearest.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

// Highest power first.
Expr polynomial(const std::vector<double> &coefficients, const Expr &x) {
    Expr p;
    for (double c : coefficients) p = p.defined() ? p * x + make_const(x.type(), c) : make_const(x.type(), c);
    return p;
}

}  // namespace

Expr tanh_precise(Expr x) {
    // x P(x^2) / Q(x^2), of least relative error on |x| <= limit: 2.1e-8 in f32, 7.3e-17 in f64. Beyond the limit, where the
    // quotient happens to be 1 with and without fused multiply-adds, tanh rounds to 1. All coefficients are positive, so
    // nothing cancels. Division costs less than an approximate reciprocal and its Newton step: 4.8 against 4.0 G/s on a Zen 4
    // core, and 3.9 for 1 - 2 / (e^2x + 1) (f32).
    static const std::vector<double> p32 = {1.3354997868936659e-08, 2.0609362167165268e-05, 0.0034956068113608228,
                                            0.1338104196448707, 0.9999999796025116};
    static const std::vector<double> q32 = {7.776706826607485e-07, 0.0003285664177868615, 0.02587705508960278,
                                            0.46714357597031375, 1.0};
    static const std::vector<double> p64 = {2.49273643300414323e-23, 7.39583993564761576e-19, 3.05883962758092238e-15,
                                            4.16698695938999832e-12, 2.43919937980373129e-9,  6.82856349933770592e-7,
                                            9.35903369553979057e-5,  5.97438009618983819e-3,  0.151803135786633286,
                                            0.999999999999999932};
    static const std::vector<double> q64 = {6.20513224206766194e-21, 5.62054574165893486e-17,
                                            1.26883537453622451e-13, 1.11034362281691933e-10,
                                            4.46147667518228613e-8,  8.75189941296770752e-6,
                                            8.28049467939014466e-4,  3.43532031361802717e-2,
                                            0.485136469119965741,    1.0};
    const Type t = x.type();
    const bool narrow = t.bits() == 32;
    const Expr limit = make_const(t, narrow ? 9.01 : 19.11);
    // Comparisons that fail for NaN: min() and max() may drop it.
    x = strict_float(select(x > limit, limit, x));
    x = strict_float(select(x < -limit, -limit, x));
    const Expr square = x * x;
    return x * polynomial(narrow ? p32 : p64, square) / polynomial(narrow ? q32 : q64, square);
}

Expr exp_of(Expr x) {
    // Minimax polynomials of e^r on +-ln 2 / 2 (2.0e-9, 3.4e-18). ln 2 is split so that n times its high part is exact: the
    // rounding of x log2(e) alone would cost 4e-6 at 44. strict_float keeps the compiler from adding the parts up again.
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
    const Expr log2_e = make_const(t, 1.4426950408889634);
    const Expr ln2_high = make_const(t, narrow ? 0.693359375 : 6.93147180369123816490e-01);
    const Expr ln2_low = make_const(t, narrow ? -2.12194440054690583e-4 : 1.90821492927058770002e-10);
    const Expr n = nearest(x * log2_e);
    const Expr r = strict_float((x - n * ln2_high) - n * ln2_low);
    const Expr p = polynomial(narrow ? r32 : r64, r);
    return reinterpret(t, reinterpret(bits, p) + (cast(bits, n) << (narrow ? 23 : 52)));
}

}  // namespace attune
