// SPDX-License-Identifier: MIT
// Derivatives of score functions, taken from their expressions.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// The derivative of step(score, at) by score. Exactly the constant 1 where the step only adds to the score.
Halide::Expr score_derivative(const ScoreFunction &step, const Halide::Expr &score, const Index &at);

// The derivatives of term(query, key) by query and by key, of which only the value of the term is known: where they follow from
// that alone.
struct TermDerivatives {
    Halide::Expr by_query, by_key;
};
TermDerivatives term_derivatives(const PairTerm &, const Halide::Expr &value);

// The same as score_derivative() by each buffer that the expression reads, at the element that it reads there.
struct CaptureDerivative {
    std::string buffer;
    std::vector<Halide::Expr> element;
    Halide::Expr derivative;
};
std::vector<CaptureDerivative> capture_derivatives(const ScoreFunction &step, const Halide::Expr &score, const Index &at);

}  // namespace attune
