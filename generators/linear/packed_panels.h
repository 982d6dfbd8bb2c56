// SPDX-License-Identifier: MIT
// Layout of a weight that is packed beforehand, the same for every target.
#pragma once
#include "Halide.h"

namespace attune {

// Panels of 64 columns (B micro-panels of BLIS, Van Zee and van de Geijn 2015), each with its whole depth, k by k; bf16 in
// pairs along k. Innermost first: (column, k, panel), or (column and element of the pair, pair, panel).
struct PackedPanels {
    static constexpr int columns = 64;  // as in packed_weight_extents() of attune/linear.h
    Halide::Type type;

    int pair() const { return type.is_bfloat() ? 2 : 1; }  // elements along k that lie side by side
    int width() const { return columns * pair(); }
    std::vector<Halide::Expr> place(const Halide::Expr &n, const Halide::Expr &k) const {
        // Remainder of the sum: by a remainder of n alone, Halide 21 would not see that a vector of pairs is whole.
        return {(n * pair() + k % pair()) % width(), k / pair(), n / columns};
    }
};

}  // namespace attune
