// SPDX-License-Identifier: MIT
// Attention within blocks of equal size, as in blockwise local attention (Qiu et al., 2020).
#pragma once
#include <attune/generator/attention.h>

struct BlockDiagonal {
    attune::Capture block{"block", Halide::Int(32), 0};  // tokens of a block
    Halide::Expr mask(attune::Index at) const { return at.i / block() == at.j / block(); }
};
