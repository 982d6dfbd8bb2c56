// SPDX-License-Identifier: MIT
// One call of scaled_dot_product_attention_backward as data, after its forward pass: arrays, the call, and its check.
#pragma once
#include "tests/reference/sdpa_backward_reference.h"
#include "tests/support/sdpa_arrays.h"

namespace attune_test {

struct SdpaBackwardCase {
    SdpaCase forward;  // without weights
    bool grad_lse = false;
    Layout grad_layout = Layout::dense;  // of grad_out, and of the gradients of query, key and value
};
inline std::string describe(const SdpaBackwardCase &c) {
    return describe(c.forward) + (c.grad_lse ? " grad_lse" : "") + " gradients " + name_of(c.grad_layout);
}

// Sets of wanted gradients, one bit each.
enum Wanted : unsigned {
    want_query = 1,
    want_key = 2,
    want_value = 4,
    want_bias = 8,
    want_slopes = 16,
    want_sinks = 32,
    want_score_weight = 64,
    want_all = 127
};

template<typename T> struct SdpaBackwardArrays {
    SdpaBackwardCase the;
    SdpaArrays<T> forward;
    Array<T> grad_out;
    Array<Sum<T>> grad_lse;
    Array<T> grad_query, grad_key, grad_value, grad_bias, grad_score_weight;
    Array<float> grad_slopes, grad_sinks;

    explicit SdpaBackwardArrays(const SdpaBackwardCase &c)
        : the(c), forward(c.forward), grad_out({f().batch, f().query_heads, f().queries, f().value_dim}, c.grad_layout),
          grad_query({f().batch, f().query_heads, f().queries, f().head_dim}, c.grad_layout, poison<T>(2)),
          grad_key({f().batch, f().key_heads, f().keys, f().key_dim ? f().key_dim : f().head_dim}, c.grad_layout, poison<T>(2)),
          grad_value({f().batch, f().key_heads, f().keys, f().value_dim}, c.grad_layout, poison<T>(2)) {
        std::mt19937 random(f().seed + 17);
        grad_out.randomise(random, 1.7);
        if (c.grad_lse) grad_lse = like<Sum<T>>(forward.lse.view(), 1), grad_lse.randomise(random, 1.7);
        if (!f().bias.empty()) grad_bias = like<T>(forward.bias.view(), 2);
        if (f().score == attune::Score::general) grad_score_weight = like<T>(forward.score_weight.view(), 2);
        if (f().alibi > Alibi::standard) grad_slopes = like<float>(forward.slopes.view(), 2);
        if (f().alibi == Alibi::standard) grad_slopes = Array<float>({f().query_heads}, {1}, poison<float>(2));
        if (f().sinks) grad_sinks = like<float>(forward.sinks.view(), 2);
    }

    const SdpaCase &f() const { return the.forward; }
    attune::SdpaOptions options(std::string_view variant = {}) {
        attune::SdpaOptions o = forward.options(variant);
        o.lse = {};
        return o;
    }
    attune::SdpaForward results() {
        return {forward.out.view(), forward.lse.view(), grad_out.view(),
                the.grad_lse ? attune::ConstView(grad_lse.view()) : attune::ConstView()};
    }
    attune::SdpaGradients gradients(unsigned wanted = want_all) {
        attune::SdpaGradients g;
        if (wanted & want_query) g.query = grad_query.view();
        if (wanted & want_key) g.key = grad_key.view();
        if (wanted & want_value) g.value = grad_value.view();
        if (wanted & want_bias && !f().bias.empty()) g.bias = grad_bias.view();
        if (wanted & want_slopes && f().alibi != Alibi::none) g.alibi_slopes = grad_slopes.view();
        if (wanted & want_sinks && f().sinks) g.sinks = grad_sinks.view();
        if (wanted & want_score_weight && f().score == attune::Score::general) g.score_weight = grad_score_weight.view();
        return g;
    }
    attune::Status run_forward(attune::Context &context) { return forward.run(context); }
    attune::Status run(attune::Context &context, std::string_view variant = {}, unsigned wanted = want_all) {
        return attune::scaled_dot_product_attention_backward(context, forward.query.view(), forward.key.view(),
                                                             forward.value.view(), results(), gradients(wanted),
                                                             options(variant));
    }
    // Reference gradients, after run_forward().
    template<typename Real, typename Stored = Real> SdpaBackwardResult<Real> reference(Parts parts = Parts::signed_parts) {
        return sdpa_backward_reference<Real, T, Stored>(
            {forward.query.view(), forward.key.view(), forward.value.view(), results(), options()}, parts);
    }

    // Calls visit(name, which, array, member of SdpaBackwardResult) for each gradient of the case.
    template<typename F> void each_gradient(const F &visit) {
        visit(
            "query", want_query, grad_query, [](auto &r) -> auto & { return r.query; });
        visit(
            "key", want_key, grad_key, [](auto &r) -> auto & { return r.key; });
        visit(
            "value", want_value, grad_value, [](auto &r) -> auto & { return r.value; });
        if (!f().bias.empty())
            visit(
                "bias", want_bias, grad_bias, [](auto &r) -> auto & { return r.bias; });
        if (f().alibi != Alibi::none)
            visit(
                "alibi_slopes", want_slopes, grad_slopes, [](auto &r) -> auto & { return r.alibi_slopes; });
        if (f().sinks)
            visit(
                "sinks", want_sinks, grad_sinks, [](auto &r) -> auto & { return r.sinks; });
        if (f().score == attune::Score::general)
            visit(
                "score_weight", want_score_weight, grad_score_weight, [](auto &r) -> auto & { return r.score_weight; });
    }
    // Bits of every gradient, in the order of each_gradient.
    std::vector<std::vector<unsigned char>> bits(unsigned wanted = want_all) {
        std::vector<std::vector<unsigned char>> all;
        each_gradient([&](const char *, unsigned which, auto &array, auto) {
            if (!(wanted & which)) return;
            const auto values = array.values();
            const auto *bytes = reinterpret_cast<const unsigned char *>(values.data());
            all.emplace_back(bytes, bytes + values.size() * sizeof(values[0]));
        });
        return all;
    }

private:
    template<typename E> static Array<E> like(const attune::View &v, int fill) {
        return Array<E>({v.extent, v.extent + v.rank}, {v.stride, v.stride + v.rank}, poison<E>(fill));
    }
};

// Reference gradients of a case, computed once for all variants.
template<typename T> struct ExpectedGradients {
    SdpaBackwardResult<Reference<T>> exact, sizes;
    SdpaBackwardResult<Sum<T>> plain;

    explicit ExpectedGradients(SdpaBackwardArrays<T> &a)
        : exact(a.template reference<Reference<T>>()), sizes(a.template reference<Reference<T>>(Parts::sizes)),
          plain(a.template reference<Sum<T>, T>()) {}
};

// Fault of the gradients, empty if there is none; `ratio` becomes the largest error over its bound.
template<typename T>
std::string defect(SdpaBackwardArrays<T> &a, const ExpectedGradients<T> &expected, unsigned wanted = want_all,
                   double *ratio = nullptr) {
    std::string found;
    a.each_gradient([&](const std::string &name, unsigned which, auto &array, auto member) {
        using E = std::decay_t<decltype(*array.data())>;
        if (!found.empty()) return;
        if (!(wanted & which)) {
            if (!array.untouched()) found = name + ": written without being asked for";
            return;
        }
        const auto values = array.values();
        const auto &steps = member(expected.plain);
        const std::vector<Sum<E>> plain(steps.begin(), steps.end());  // in f64, slopes and sinks are f32
        const auto &sizes = member(expected.sizes);
        const Verdict verdict = judge(member(expected.exact), plain, values, sizes);
        if (ratio) *ratio = std::max(*ratio, verdict.ratio);
        if (!array.gaps_untouched())
            found = name + ": written beyond its elements";
        else if (!array.all_written())
            found = name + ": not all elements written";
        else if (!verdict.right)
            found = name + ": " + verdict.why;
        if (found.empty() && suspiciously_empty(clear_elements(member(expected.exact), plain, sizes), values))
            found = name + ": zeros where the reference has none";
    });
    return found;
}

}  // namespace attune_test
