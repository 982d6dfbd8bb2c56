// SPDX-License-Identifier: MIT
// Counter-based random numbers, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"
#include <array>

namespace attune {

// The four words of Philox4x32-10 (Salmon et al., 2011) for a counter and a key; all UInt(32).
std::array<Halide::Expr, 4> philox4x32_10(const std::array<Halide::Expr, 4> &counter, const std::array<Halide::Expr, 2> &key);

// The words that decide which of the keys 4 four + {0, 1, 2, 3} dropout keeps for a query, in the counter convention of
// runtime/include/attune/dropout.h. head counts the query heads of all batch entries.
std::array<Halide::Expr, 4> dropout_words(const Halide::Expr &four, const Halide::Expr &query, const Halide::Expr &head,
                                          const Halide::Expr &offset, const std::array<Halide::Expr, 2> &seed);

// The words of the keys first_key + 4 four + {0, 1, 2, 3}; first_key is UInt(32). Where 4 does not divide first_key the words
// come from two counters: the second is computed in a branch, so that calls of other first keys do not pay for it.
std::array<Halide::Expr, 4> dropout_words_from(const Halide::Expr &first_key, const Halide::Expr &four,
                                               const Halide::Expr &query, const Halide::Expr &head, const Halide::Expr &offset,
                                               const std::array<Halide::Expr, 2> &seed);

}  // namespace attune
