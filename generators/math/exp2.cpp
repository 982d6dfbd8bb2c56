#include "generators/math/exp2.h"
#include "generators/math/nearest.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

Expr exp2_by(const std::vector<double> &polynomial, const Expr &power, const PowerInstructions &by) {
    const Type t = power.type();
    const bool narrow = t.bits() == 32;
    const int bias = narrow ? 127 : 1023, mantissa = narrow ? 23 : 52;
    const Type bits = Int(t.bits());
    // A name for the power, so that what is strict here is not how it was computed, too.
    const std::string name = Internal::unique_name("power");
    const Expr named = Internal::Variable::make(t, name);
    const auto polynomial_of = [&](const Expr &f) {
        Expr p;
        for (double c : polynomial) p = p.defined() ? p * f + make_const(t, c) : make_const(t, c);
        return p;
    };
    if (by.scaled) {
        const Expr n = by.nearest(named);
        return Internal::Let::make(name, power, by.scaled(polynomial_of(strict_float(named - n)), n));
    }
    // At the clamp itself the polynomial is exactly 1 and the exponent field becomes 0: the result is +0 without a select.
    // Written as a strict comparison that fails for NaN: max() may drop the NaN.
    const Expr lowest = make_const(t, -bias);
    const Expr x = strict_float(select(named < lowest, lowest, named));
    // Its integer is not taken from the bits of the sum that rounds: those of a NaN would make a number of the polynomial's.
    const Expr n = nearest(x), p = polynomial_of(x - n);
    return Internal::Let::make(name, power, reinterpret(t, reinterpret(bits, p) + (cast(bits, n) << mantissa)));
}

}  // namespace

Expr exp2_nonpositive(Expr x, const PowerInstructions &by) {
    // Minimax polynomials of 2^f on [-1/2, 1/2], highest power first, the constant term exactly 1.
    static const std::vector<double> f32 = {0.0013264726899302273, 0.009671512660596411, 0.05550733744243643,
                                            0.24022242084918521,   0.693146977598472,    1.0};
    static const std::vector<double> f64 = {4.4347441458828956e-10, 7.073787798523739e-09,  1.0178199810066395e-07,
                                            1.3215435252605035e-06, 1.5252733492356822e-05, 0.000154035304571805,
                                            0.0013333558146775728,  0.009618129107594056,   0.05550410866482008,
                                            0.2402265069591013,     0.6931471805599453,     1.0};
    return x.type().bits() == 32 ? exp2_by(f32, x, by) : exp2_by(f64, x, {});
}

Expr exp2_nonpositive_for_bf16(Expr x, const PowerInstructions &by) {
    static const std::vector<double> coarse = {0.009582853428375579, 0.0559064246684455, 0.24024098602187194,
                                               0.6931241934089557, 1.0};
    return exp2_by(coarse, x, by);
}

}  // namespace attune
