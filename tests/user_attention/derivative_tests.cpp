// SPDX-License-Identifier: MIT
// Derivatives of scores that branch on an integer made from the score: docs/conventions.md row 13.
#include "generators/attention/equations/score_derivative.h"
#include "tests/support/catch.h"

namespace {
using namespace Halide;

double at(const Expr &derivative, float x, const Func &slope) {
    const Expr value = Internal::substitute(Expr(slope()), Expr(0.25f), Internal::substitute("score", Expr(x), derivative));
    const auto known = Internal::as_const_float(Internal::simplify(value));
    REQUIRE(known);
    return *known;
}
}  // namespace

TEST_CASE("an integer that is made of the score keeps it in derivatives", "[user_attention]") {
    Func slope("slope");
    slope() = 0.0f;
    const auto step = [&](Expr x, const attune::Index &) { return select(cast<int>(x) > 1, x * x, 3 * x * slope()); };
    const Expr score = Internal::Variable::make(Float(32), "score");
    const Expr by_score = attune::score_derivative(step, score, {});
    CHECK(at(by_score, 2.5f, slope) == 5.0);
    CHECK(at(by_score, 1.5f, slope) == 0.75);
    const auto by_capture = attune::capture_derivatives(step, score, {});
    REQUIRE(by_capture.size() == 1);
    CHECK(at(by_capture[0].derivative, 2.5f, slope) == 0.0);
    CHECK(at(by_capture[0].derivative, 1.5f, slope) == 4.5);
}
