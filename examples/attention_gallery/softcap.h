// SPDX-License-Identifier: MIT
// Scores that cannot leave (-cap, cap), as in Gemma 2 (Gemma Team, 2024).
#pragma once
#include <attune/generator/attention.h>

struct Softcap {
    attune::Capture cap{"cap", Halide::Float(32), 0};
    Halide::Expr score(Halide::Expr x, attune::Index) const { return cap() * tanh(x / cap()); }
};
