// SPDX-License-Identifier: MIT
// What authors of scores write as calls of library functions, as expressions that vectorise.
#pragma once
#include "Halide.h"

namespace attune {

// The expression with its calls of tanh() by tanh_precise(), and of cosh(), which the derivative of tanh() is written with,
// likewise: relative error 4e-7 in f32, the largest finite value stands for all beyond it.
Halide::Expr precise(const Halide::Expr &);

}  // namespace attune
