// SPDX-License-Identifier: MIT
// Documents packed into one sequence (Krell et al., 2021): each is causal and sees no other document.
#pragma once
#include <attune/generator/attention.h>

struct Documents {
    attune::Capture document{"document", Halide::Int(32), 2};  // (B, S)
    Halide::Expr mask(attune::Index at) const { return document(at.b, at.i) == document(at.b, at.j) && at.j <= at.i; }
};
