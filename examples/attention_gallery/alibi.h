// SPDX-License-Identifier: MIT
// ALiBi, attention with linear biases (Press, Smith and Lewis, 2022): a score falls with its key's distance, by a slope of each
// head, which is learned here.
#pragma once
#include <attune/generator/attention.h>

struct Alibi {
    attune::Capture slopes{"slopes", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        return x - slopes(at.h) * Halide::cast<float>(abs(at.position - at.j));
    }
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
};
