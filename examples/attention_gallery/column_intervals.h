// SPDX-License-Identifier: MIT
// Column intervals of FlashMask (Wang et al., 2025): causal, and each key is hidden from an interval of queries.
#pragma once
#include <attune/generator/attention.h>

struct ColumnIntervals {
    attune::Capture hidden{"startend_row_indices", Halide::Int(32), 4};  // (B, Hkv, Sk, 2)
    Halide::Expr mask(attune::Index at) const {
        const auto row = [&](int end) { return hidden(at.b, at.key_head, at.j, end); };
        return at.j <= at.i && (at.i < row(0) || at.i >= row(1));
    }
};
