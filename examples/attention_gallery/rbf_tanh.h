// SPDX-License-Identifier: MIT
// A score made of an exponential and a tanh, to show that any will do: the Gaussian kernel exp(-rate |q - k|^2 / 2), which is
// exp(rate (q.k - 1)) for vectors of length 1, saturated by a tanh and weighed by each head.
#pragma once
#include <attune/generator/attention.h>

struct RbfTanh {
    attune::Capture gain{"gain", 1}, rate{"rate", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const { return gain(at.h) * tanh(exp(rate(at.h) * (x - 1))); }
};
