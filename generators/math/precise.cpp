// SPDX-License-Identifier: MIT
#include "generators/math/precise.h"
#include "generators/math/tanh.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

Expr cosh_precise(Expr x) {
    const Expr limit = make_const(x.type(), x.type().bits() == 32 ? 44 : 350);  // range of exp_of()
    Expr size = abs(x);
    size = strict_float(select(size > limit, limit, size));  // keeps NaN
    const Expr e = exp_of(size), one = make_const(x.type(), 1);
    return (e + one / e) * make_const(x.type(), 0.5);
}

class Precise : public Internal::IRMutator {
    Expr visit(const Internal::Call *op) override {
        const bool tanh = op->is_extern() && (op->name == "tanh_f32" || op->name == "tanh_f64");
        const bool cosh = op->is_extern() && (op->name == "cosh_f32" || op->name == "cosh_f64");
        if (!tanh && !cosh) return IRMutator::visit(op);
        const Expr x = mutate(op->args[0]);
        return tanh ? tanh_precise(x) : cosh_precise(x);
    }
};

}  // namespace

Expr precise(const Expr &e) { return Precise().mutate(e); }

}  // namespace attune
