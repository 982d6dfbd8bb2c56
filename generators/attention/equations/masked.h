// SPDX-License-Identifier: MIT
// Masked pairs: the scores that stand for -inf, and the mark that a weight of such a pair carries.
#pragma once
#include "Halide.h"

namespace attune {

// The least score that counts, from which a row maximum starts: lower ones and -inf mask. And the score of a masked pair:
// finite, because Halide's code generation assumes no Inf. A masked weight is 0 by its mark, not by the distance of the two.
Halide::Expr lowest_score(const Halide::Type &);
Halide::Expr masked_score(const Halide::Type &);
// Below every score that counts. False for NaN.
Halide::Expr is_masked(const Halide::Expr &score);

// The mark is -0, as a weight and as the gradient by a score: that adds nothing to a sum, and a product sees by it alone that
// the pair is masked. x, or -0 where it is not kept; whether x is not masked; 0 with the mark of x, of what dropout drops.
Halide::Expr kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
// The same of numbers of any sign: a -0 that arithmetic made becomes 0, or it would look masked.
Halide::Expr signed_kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
Halide::Expr counts(const Halide::Expr &x);
Halide::Expr marked_zero(const Halide::Expr &x);

// -inf as unsigned integer, because arithmetic on it would be undefined.
Halide::Expr minus_infinity_bits(Halide::Type);

}  // namespace attune
