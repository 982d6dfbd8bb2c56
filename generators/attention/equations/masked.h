// SPDX-License-Identifier: MIT
// Masked pairs: the scores that stand for -inf, and the mark on the weight of a masked pair.
#pragma once
#include "Halide.h"

namespace attune {

// Least score that counts, from which a row maximum starts (lower scores and -inf are masked); and the score of a masked pair,
// finite because Halide's code generation assumes no Inf. A masked weight is 0 by its mark, not by the distance of the two.
Halide::Expr lowest_score(const Halide::Type &);
Halide::Expr masked_score(const Halide::Type &);
// Whether a score is below every score that counts. False for NaN.
Halide::Expr is_masked(const Halide::Expr &score);

// Mark of a masked pair: -0, as a weight and as the gradient by a score. A -0 adds nothing to a sum and tells a product that
// the pair is masked. In turn: x, or -0 if not kept; the same for signed x; x is not masked; 0 with the mark of a dropped x.
Halide::Expr kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
// kept_or_marked() for numbers of any sign: a -0 made by arithmetic becomes 0, because it would look masked.
Halide::Expr signed_kept_or_marked(const Halide::Expr &kept, const Halide::Expr &x);
Halide::Expr counts(const Halide::Expr &x);
Halide::Expr marked_zero(const Halide::Expr &x);

// -inf as an unsigned integer, because arithmetic on -inf would be undefined.
Halide::Expr minus_infinity_bits(Halide::Type);

}  // namespace attune
