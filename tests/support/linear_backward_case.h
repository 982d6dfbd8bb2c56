// SPDX-License-Identifier: MIT
// One call of linear_backward as data, a LinearCase: random arrays for it, and its check.
#pragma once
#include "tests/reference/linear_backward_reference.h"
#include "tests/support/linear_case.h"

namespace attune_test {

enum WantedOfLayer : unsigned { want_x = 1, want_weight = 2, want_bias_sum = 4, want_layer = 7 };

template<typename T> struct LinearBackwardArrays {
    LinearArrays<T> layer;
    Array<T> grad_out, grad_x, grad_weight, grad_bias;

    explicit LinearBackwardArrays(const LinearCase &c) : layer(c) {
        grad_out = array_of<T>(c.order, with(c.leading, {c.columns}));
        grad_x = array_of<T>(c.order, with(c.leading, {c.depth}));
        grad_weight = array_of<T>(c.order, {c.columns, c.depth});
        grad_bias = array_of<T>(Order::dense, {c.columns});
        std::mt19937 random(c.seed + 1000);
        grad_out.randomise(random, c.spread);
    }
    attune::LinearGradients gradients(unsigned wanted = want_layer) {
        attune::LinearGradients g;
        if (wanted & want_x) g.x = grad_x.view();
        if (wanted & want_weight) g.weight = grad_weight.view();
        if (wanted & want_bias_sum) g.bias = grad_bias.view();
        return g;
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}, unsigned wanted = want_layer) {
        return attune::linear_backward(context, layer.x.view(), layer.weight.view(), grad_out.view(), gradients(wanted),
                                       {.variant = variant});
    }
    template<typename Real, typename Stored = Real> LinearBackwardResult<Real> reference() {
        return linear_backward_reference<Real, T, Stored>(layer.x.view(), layer.weight.view(), grad_out.view());
    }
    bool untouched() { return grad_x.untouched() && grad_weight.untouched() && grad_bias.untouched(); }
};

// Fault of the wanted gradients, empty if there is none; `ratio` becomes the largest error over its bound.
template<typename T> std::string defect(LinearBackwardArrays<T> &a, unsigned wanted = want_layer, double *ratio = nullptr) {
    const auto exact = a.template reference<Reference<T>>();
    const auto plain = a.template reference<Sum<T>, T>();
    std::string found;
    const auto judged = [&](const char *name, unsigned which, auto &array, auto &expected, auto &in_type) {
        if (!found.empty()) return;
        if (!(wanted & which)) {
            if (!array.untouched()) found = std::string(name) + " was written";
        } else if (!array.gaps_untouched()) {
            found = std::string(name) + " was written outside its elements";
        } else if (!array.all_written()) {
            found = std::string(name) + " has elements that were not written";
        } else {
            const Verdict verdict = judge(expected, in_type, array.values());
            if (ratio) *ratio = std::max(*ratio, verdict.ratio);
            if (!verdict.right) found = std::string(name) + ": " + verdict.why;
        }
    };
    judged("grad_x", want_x, a.grad_x, exact.x, plain.x);
    judged("grad_weight", want_weight, a.grad_weight, exact.weight, plain.weight);
    judged("grad_bias", want_bias_sum, a.grad_bias, exact.bias, plain.bias);
    return found;
}

template<typename T>
void check_backward(attune::Context &context, const LinearCase &c, std::string_view variant = {},
                    unsigned wanted = want_layer) {
    LinearBackwardArrays<T> a(c);
    INFO("linear_backward " << describe(c) << " wanted " << wanted);
    const attune::Status status = a.run(context, variant, wanted);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(defect(a, wanted) == "");
}

}  // namespace attune_test
