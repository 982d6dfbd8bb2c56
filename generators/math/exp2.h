// SPDX-License-Identifier: MIT
// Base-2 exponential for softmax weights, as a Halide expression. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>

namespace attune {

// Instructions that a target may have for f32.
struct PowerInstructions {
    std::function<Halide::Expr(Halide::Expr x)> nearest;                      // nearest integer, also where |x| > 2^22
    std::function<Halide::Expr(Halide::Expr factor, Halide::Expr n)> scaled;  // factor * 2^n; 0 where n is -inf, also of NaN
};

// 2^(factor * x) for x <= 0 and a factor above 0, in the type of both (f32: relative error 1.8e-7, f64: 4e-16, where a product
// is fused with the sum that follows it), in f32 by instructions where there are any. A power of -126.5 and less (by
// instructions -150, f64: -1022.5) gives exactly 0, -inf among them; x of 0 gives exactly 1; NaN gives NaN.
Halide::Expr exp2_nonpositive(const Halide::Expr &x, const Halide::Expr &factor, const PowerInstructions & = {});

// exp2_nonpositive() in f32 with relative error 2.9e-6, for weights that are rounded to bf16 (2e-3) before they multiply
// values. The sum of the weights is not rounded to bf16, and the absolute error of lse is the relative error of that sum.
Halide::Expr exp2_nonpositive_for_bf16(const Halide::Expr &x, const Halide::Expr &factor, const PowerInstructions & = {});

}  // namespace attune
