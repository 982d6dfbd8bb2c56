// SPDX-License-Identifier: MIT
// Library calls in authors' scores, rewritten as expressions that vectorise.
#pragma once
#include "Halide.h"

namespace attune {

// The expression with tanh() replaced by tanh_precise(), and with cosh(), which occurs in the derivative of tanh(), replaced
// likewise: relative error 4e-7 in f32; beyond its range cosh() gives its largest finite value.
Halide::Expr precise(const Halide::Expr &);

}  // namespace attune
