// SPDX-License-Identifier: MIT
// A learned temperature of each head, kept as its logarithm as in Swin Transformer V2 (Liu et al., 2022).
#pragma once
#include <attune/generator/attention.h>

struct Temperature {
    attune::Capture log_scale{"log_scale", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const { return x * exp(log_scale(at.h)); }
};
