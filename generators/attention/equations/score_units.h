// SPDX-License-Identifier: MIT
// Units of scores: natural units, and exponents of 2.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// Conversions of scores. A score is not scaled where no step follows (Score::scales_scores): the scale then joins log2(e)
// behind the difference of score and maximum, so that no score is rounded by either factor before the maximum is subtracted.
struct ScoreUnits {
    using Expr = Halide::Expr;

    const Score &score;
    Halide::Type type;  // of the scores
    Expr scale;         // double

    Expr value_of(double x) const { return Halide::Internal::make_const(type, x); }
    Expr scaled(const Expr &product) const;        // scaled where scores are scaled, else the product
    Expr per_score() const;                        // factor from a score to an exponent of 2, not below 0
    Expr natural(const Expr &score) const;         // units of lse and raw scores
    Expr signed_query(const Expr &element) const;  // negated where scores are not scaled and the scale is negative
    // The exponent of 2 of a difference, for the devices' exp2 instruction.
    Expr base2(const Expr &difference) const { return strict_float(difference * per_score()); }
};

}  // namespace attune
