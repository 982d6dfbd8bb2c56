// SPDX-License-Identifier: MIT
// Prefix language model (Raffel et al., 2020): the prompt of each batch entry sees all of the prompt, later tokens are causal.
#pragma once
#include <attune/generator/attention.h>

struct PrefixLm {
    attune::Capture prefix{"prefix", Halide::Int(32), 1};  // (B)
    Halide::Expr mask(attune::Index at) const { return at.j < prefix(at.b) || at.j <= at.position; }
};
