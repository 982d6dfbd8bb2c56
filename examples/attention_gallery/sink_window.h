// SPDX-License-Identifier: MIT
// A causal sliding window and the first tokens, which all queries see (StreamingLLM: Xiao et al., 2024).
#pragma once
#include <attune/generator/attention.h>

struct SinkWindow {
    attune::Capture first{"first", Halide::Int(32), 0}, window{"window", Halide::Int(32), 0};  // numbers of tokens
    Halide::Expr mask(attune::Index at) const {
        return at.j <= at.position && (at.j < first() || at.position - at.j < window());
    }
};
