// SPDX-License-Identifier: MIT
// A score of an exponential and a tanh, as an example of any formula: the Gaussian kernel exp(-rate |q - k|^2 / 2), which is
// exp(rate (q.k - 1)) for vectors of length 1, saturated by a tanh and weighted by a gain of each head.
#pragma once
#include <attune/generator/attention.h>

struct RbfTanh {
    attune::Capture gain{"gain", 1}, rate{"rate", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const { return gain(at.h) * tanh(exp(rate(at.h) * (x - 1))); }
};
