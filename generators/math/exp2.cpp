// SPDX-License-Identifier: MIT
#include "generators/math/exp2.h"
#include "generators/math/nearest.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

Expr exp2_by(const std::vector<double> &polynomial, const Expr &x, const Expr &factor, const PowerInstructions &by) {
    const Type t = x.type();
    const bool narrow = t.bits() == 32;
    const int bias = narrow ? 127 : 1023, mantissa = narrow ? 23 : 52;
    const Type bits = Int(t.bits());
    // Named values: strict_float() on a name leaves the expression that computed the value as it is.
    const std::string x_name = Internal::unique_name("x"), sum_name = Internal::unique_name("rounded");
    const std::string factor_name = Internal::unique_name("factor");
    const Expr named = Internal::Variable::make(t, x_name), rounded = Internal::Variable::make(t, sum_name);
    const Expr named_factor = Internal::Variable::make(t, factor_name);
    const auto polynomial_of = [&](const Expr &f) {
        Expr p;
        for (double c : polynomial) p = p.defined() ? p * f + make_const(t, c) : make_const(t, c);
        return p;
    };
    if (by.scaled) {
        const Expr power = strict_float(named * factor), n = by.nearest(power);
        return Internal::Let::make(x_name, x, by.scaled(polynomial_of(strict_float(power - n)), n));
    }
    // Both products are fused with the sum that follows, so that only the fraction of the power is rounded. The factor that
    // finds the integer differs from `factor` by a rounding: if both were one product, LLVM would fuse neither. It is strict,
    // or Halide would multiply the rounded product of x and `factor` by 1 + 2^-22.
    const double unit = rounding_unit(t), other = narrow ? 1 + 0x1p-22 : 1 + 0x1p-50;
    const bool is_power = Internal::is_const_one(factor);
    const Expr finding = strict_float(named_factor * make_const(t, other));
    const Expr sum = (is_power ? named : named * finding) + make_const(t, unit);
    const Expr n = strict_float(rounded - make_const(t, unit));
    const Expr p = polynomial_of(is_power ? strict_float(named - n) : named * factor - n);
    // The integer is not taken from the bits of the rounded sum: a NaN's bits would turn the polynomial's NaN into a number.
    const Expr power = reinterpret(t, reinterpret(bits, p) + (cast(bits, n) << mantissa));
    // Strict comparison, because x may be NaN or -inf.
    const Expr vanishes = strict_float(rounded < make_const(t, unit - (bias - 1)));
    const Expr with_sum = Internal::Let::make(sum_name, sum, select(vanishes, make_const(t, 0), power));
    return Internal::Let::make(x_name, x, Internal::Let::make(factor_name, factor, with_sum));
}

}  // namespace

Expr exp2_nonpositive(const Expr &x, const Expr &factor, const PowerInstructions &by) {
    // Minimax polynomials of 2^f on [-1/2, 1/2], highest power first, the constant term exactly 1.
    static const std::vector<double> f32 = {0.0013264726899302273, 0.009671512660596411, 0.05550733744243643,
                                            0.24022242084918521,   0.693146977598472,    1.0};
    static const std::vector<double> f64 = {4.4347441458828956e-10, 7.073787798523739e-09,  1.0178199810066395e-07,
                                            1.3215435252605035e-06, 1.5252733492356822e-05, 0.000154035304571805,
                                            0.0013333558146775728,  0.009618129107594056,   0.05550410866482008,
                                            0.2402265069591013,     0.6931471805599453,     1.0};
    return x.type().bits() == 32 ? exp2_by(f32, x, factor, by) : exp2_by(f64, x, factor, {});
}

Expr exp2_nonpositive_for_bf16(const Expr &x, const Expr &factor, const PowerInstructions &by) {
    static const std::vector<double> coarse = {0.009582853428375579, 0.0559064246684455, 0.24024098602187194,
                                               0.6931241934089557, 1.0};
    return exp2_by(coarse, x, factor, by);
}

}  // namespace attune
