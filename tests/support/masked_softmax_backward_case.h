// SPDX-License-Identifier: MIT
// One call of masked_softmax_backward as data, a SoftmaxCase: weights of the forward pass, random gradients of them, and the
// check. Where a weight is 0 its gradient is NaN, which must have no effect.
#pragma once
#include "attune/masked_softmax_backward.h"
#include "tests/reference/masked_softmax_backward_reference.h"
#include "tests/support/masked_softmax_case.h"

namespace attune_test {

// The memory into which the gradient of the scores is written.
enum class Into { its_own, grad_out, out };

// Arrays: scores and grad_scores have scores_layout, weights and their gradient out_layout; in place there is one layout.
template<typename T> struct SoftmaxBackwardArrays {
    SoftmaxArrays<T> forward;
    Array<T> grad_out, grad_scores;

    explicit SoftmaxBackwardArrays(const SoftmaxCase &c)
        : forward(c), grad_out({c.batch, c.heads, c.queries, c.keys}, c.out_layout),
          grad_scores({c.batch, c.heads, c.queries, c.keys}, c.scores_layout) {
        attune::Context context({.threads = 1});
        REQUIRE(attune::masked_softmax(context, forward.scores.view(), forward.out.view(), forward.options({})).ok());
        std::mt19937 random(c.seed + 77);
        grad_out.randomise(random, 2);
        for (std::int64_t b = 0; b < c.batch; b++)
            for (std::int64_t h = 0; h < c.heads; h++)
                for (std::int64_t i = 0; i < c.queries; i++)
                    for (std::int64_t j = 0; j < c.keys; j++)
                        if (forward.out(b, h, i, j) == 0) grad_out(b, h, i, j) = std::numeric_limits<T>::quiet_NaN();
    }
    Array<T> &target(Into into) { return into == Into::its_own ? grad_scores : into == Into::out ? forward.out : grad_out; }
    attune::Status run(attune::Context &context, std::string_view variant = {}, Into into = Into::its_own) {
        return attune::masked_softmax_backward(context, forward.out.view(), grad_out.view(), target(into).view(),
                                               forward.options(variant));
    }
    template<typename Real> std::vector<Real> reference(bool sizes = false) {
        return masked_softmax_backward_reference<Real, T>(forward.out.view(), grad_out.view(), forward.options({}), sizes);
    }
};

// Runs the case and checks it.
template<typename T>
void check_backward(attune::Context &context, const SoftmaxCase &c, std::string_view variant = {}, Into into = Into::its_own) {
    INFO(c << " into " << int(into));
    SoftmaxBackwardArrays<T> a(c);
    const auto exact = a.template reference<Reference<T>>(), sizes = a.template reference<Reference<T>>(true);
    const auto plain = a.template reference<T>();
    const auto status = a.run(context, variant, into);
    INFO(status.message());
    REQUIRE(status.ok());
    Array<T> &result = a.target(into);
    const Verdict verdict = judge(exact, plain, result.values(), sizes);
    INFO(verdict.why);
    CHECK(verdict.right);
    CHECK(result.gaps_untouched());
    CHECK(result.all_written());
}

}  // namespace attune_test
