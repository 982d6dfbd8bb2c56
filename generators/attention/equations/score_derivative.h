// SPDX-License-Identifier: MIT
// Derivatives of score functions, from their expressions.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// The derivative of step(score, at) by score; exactly the constant 1 where the step only adds to the score.
Halide::Expr score_derivative(const ScoreFunction &step, const Halide::Expr &score, const Index &at);

// The derivatives of term(query, key) by query and by key, where both follow from the value of the term alone.
struct TermDerivatives {
    Halide::Expr by_query, by_key;
};
TermDerivatives term_derivatives(const PairTerm &, const Halide::Expr &value);

// Derivatives of step(score, at) by each buffer that the expression reads, at the element that it reads.
struct CaptureDerivative {
    std::string buffer;
    std::vector<Halide::Expr> element;
    Halide::Expr derivative;
};
std::vector<CaptureDerivative> capture_derivatives(const ScoreFunction &step, const Halide::Expr &score, const Index &at);

}  // namespace attune
