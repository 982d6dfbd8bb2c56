// SPDX-License-Identifier: MIT
// The units of scores: natural ones, and those of exponents of 2.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// A score is not scaled where no step follows (Score::scales_scores): the scale then joins log2(e) behind the difference of
// score and maximum, so that neither rounds a score before the maximum is taken off.
struct ScoreUnits {
    using Expr = Halide::Expr;

    const Score &score;
    Halide::Type type;  // of the scores
    Expr scale;         // double

    Expr value_of(double x) const { return Halide::Internal::make_const(type, x); }
    Expr scaled(const Expr &product) const;        // where scores are scaled, else the product
    Expr per_score() const;                        // by which a score is an exponent of 2, not below 0
    Expr natural(const Expr &score) const;         // as lse and raw scores have it
    Expr signed_query(const Expr &element) const;  // negated where scores are not scaled and the scale is negative
    // The exponent of 2 of a difference, for devices' instruction.
    Expr base2(const Expr &difference) const { return strict_float(difference * per_score()); }
};

}  // namespace attune
