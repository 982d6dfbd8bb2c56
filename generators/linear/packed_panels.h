// SPDX-License-Identifier: MIT
// Where a weight that is packed beforehand has its elements: the same for every target.
#pragma once
#include "Halide.h"

namespace attune {

// Panels of 64 columns, each with its whole depth one k after the other; bf16 in pairs along k, as products of pairs take them.
// Innermost first: (column, k, panel), or (column and element of the pair, pair, panel).
struct PackedPanels {
    static constexpr int columns = 64;  // as packed_weight_extents() of attune/linear.h says
    Halide::Type type;

    int pair() const { return type.is_bfloat() ? 2 : 1; }  // elements along k that lie together
    int width() const { return columns * pair(); }
    std::vector<Halide::Expr> place(const Halide::Expr &n, const Halide::Expr &k) const {
        // The remainder is of the sum: of n alone, Halide 21 would not see that a vector of pairs is whole.
        return {(n * pair() + k % pair()) % width(), k / pair(), n / columns};
    }
};

}  // namespace attune
