// SPDX-License-Identifier: MIT
// Transposed product: out(m, n) = sum over k of a(k, m) x(k, n), where both matrices lie with k outermost, as rows of a layer
// do. It is the product of generators/linear with its left matrix read along rows, and sums in the same depth blocks and order.
// A row k of `a` that is all zeros takes no part, whatever x holds there. No tile, no vector width, no target.
#pragma once
#include "generators/linear/panel_stages.h"

namespace attune {

struct TransposedDotInputs {
    Halide::Func a, x;                  // (m, k, h, b), (n, k, h, b)
    Halide::Expr rows, columns, depth;  // extents of m, n, k
};

struct TransposedDotShape {
    Halide::Type type;  // of the sums
    int depth_block;    // of the depth: fixes the order of summation
    int tile;           // rows of out read together: their elements of `a` are neighbours. It changes no result.
};

struct TransposedDotStages {
    Halide::Func place_bits;  // (e, k, h, b): magnitude bits of a row of `a` at place e of a block, combined by or
    Halide::Func row_used;    // (k, h, b): the largest of place_bits, 0 where the row is all zeros
    Halide::Func left;        // (t, k, m, h, b): element m * tile + t of row k of `a`, in the type of the sums
    PanelStages product;
    Halide::Func out;  // (n, m, h, b), in the type of `a`
    Halide::Var e{"e"}, k{"k"}, m{"m"}, n{"n"}, t{"t"}, h{"h"}, b{"b"};
    Halide::RVar place_block, place;
    int tile = 1;                      // of TransposedDotShape
    static constexpr int places = 64;  // of a block; changes no result
};

TransposedDotStages transposed_dot_stages(const TransposedDotInputs &, const TransposedDotShape &);

}  // namespace attune
