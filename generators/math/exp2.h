// Base-2 exponential for softmax weights, as a Halide expression. No target, no vector width.
#pragma once
#include "Halide.h"

namespace attune {

// 2^x for x <= 0, in the type of x (f32: relative error 1.8e-7, f64: 4e-16). x <= -127 (f64: -1023) gives exactly 0;
// NaN gives NaN.
Halide::Expr exp2_nonpositive(Halide::Expr x);

// The same in f32 with relative error 1.1e-4, for what is then rounded to bf16 (4e-3).
Halide::Expr exp2_nonpositive_for_bf16(Halide::Expr x);

}  // namespace attune
