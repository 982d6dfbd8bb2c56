// SPDX-License-Identifier: MIT
// One call of additive_attention_backward as data, after its forward pass: arrays, the call, and its check.
#pragma once
#include "tests/reference/additive_backward_reference.h"
#include "tests/support/additive_case.h"
#include "tests/support/variant_grid.h"

namespace attune_test {

inline constexpr std::string_view additive_backward_op = "additive_backward";

struct AdditiveBackwardCase {
    AdditiveCase forward;  // without weights
    bool grad_lse = false;
    Layout grad_layout = Layout::dense;  // of grad_out, and of the gradients of query, key and value
};
inline std::string describe(const AdditiveBackwardCase &c) {
    return describe(c.forward) + (c.grad_lse ? " grad_lse" : "") + " gradients " + name_of(c.grad_layout);
}

inline constexpr unsigned every_gradient = ~0u;

template<typename T> struct AdditiveBackwardArrays {
    AdditiveBackwardCase the;
    AdditiveArrays<T> forward;
    Array<T> grad_out, grad_query, grad_key, grad_value, grad_w_query, grad_w_key, grad_b_query, grad_b_key, grad_w_score,
        grad_bias;
    Array<Sum<T>> grad_lse;
    Array<float> grad_slopes, grad_sinks;

    explicit AdditiveBackwardArrays(const AdditiveBackwardCase &c)
        : the(c), forward(c.forward), grad_out({f().batch, f().query_heads, f().queries, f().value_dim}, c.grad_layout),
          grad_query({f().batch, f().query_heads, f().queries, f().head_dim}, c.grad_layout, poison<T>(2)),
          grad_key({f().batch, f().key_heads, f().keys, f().key_dim}, c.grad_layout, poison<T>(2)),
          grad_value({f().batch, f().key_heads, f().keys, f().value_dim}, c.grad_layout, poison<T>(2)) {
        std::mt19937 random(f().seed + 29);
        grad_out.randomise(random, 1.7);
        if (c.grad_lse) grad_lse = like<Sum<T>>(forward.base.lse, 1), grad_lse.randomise(random, 1.7);
        if (the.forward.w_query) grad_w_query = like<T>(forward.w_query, 2);
        if (the.forward.w_key) grad_w_key = like<T>(forward.w_key, 2);
        if (the.forward.b_query) grad_b_query = like<T>(forward.b_query, 2);
        if (the.forward.b_key) grad_b_key = like<T>(forward.b_key, 2);
        if (the.forward.w_score) grad_w_score = like<T>(forward.w_score, 2);
        if (!f().bias.empty()) grad_bias = like<T>(forward.base.bias, 2);
        if (f().alibi > Alibi::standard) grad_slopes = like<float>(forward.base.slopes, 2);
        if (f().alibi == Alibi::standard) grad_slopes = Array<float>({f().query_heads}, {1}, poison<float>(2));
        if (f().sinks) grad_sinks = like<float>(forward.base.sinks, 2);
    }

    const SdpaCase &f() const { return forward.base.the; }
    attune::AdditiveOptions options(std::string_view variant = {}) {
        attune::AdditiveOptions o = forward.options(variant);
        o.attention.lse = {};
        return o;
    }
    attune::SdpaForward results() {
        return {forward.base.out.view(), forward.base.lse.view(), grad_out.view(),
                the.grad_lse ? attune::ConstView(grad_lse.view()) : attune::ConstView()};
    }

    // Calls visit(name, array, member of AdditiveGradients, member of AdditiveBackwardResult) for each gradient of the case.
    template<typename F> void each_gradient(const F &visit) {
#define ATTUNE_VISIT(member, array, there) \
    if (there) \
    visit( \
        #member, array, [](auto &g) -> auto & { return g.member; })
        const AdditiveCase &c = the.forward;
        ATTUNE_VISIT(query, grad_query, true);
        ATTUNE_VISIT(key, grad_key, true);
        ATTUNE_VISIT(value, grad_value, true);
        ATTUNE_VISIT(w_query, grad_w_query, c.w_query);
        ATTUNE_VISIT(w_key, grad_w_key, c.w_key);
        ATTUNE_VISIT(b_query, grad_b_query, c.b_query);
        ATTUNE_VISIT(b_key, grad_b_key, c.b_key);
        ATTUNE_VISIT(w_score, grad_w_score, c.w_score);
        ATTUNE_VISIT(bias, grad_bias, !f().bias.empty());
        ATTUNE_VISIT(alibi_slopes, grad_slopes, f().alibi != Alibi::none);
        ATTUNE_VISIT(sinks, grad_sinks, f().sinks);
#undef ATTUNE_VISIT
    }
    // Views of the wanted gradients: bit n of `wanted` stands for gradient n of each_gradient.
    attune::AdditiveGradients gradients(unsigned wanted = every_gradient) {
        attune::AdditiveGradients g;
        unsigned n = 0;
        each_gradient([&](const char *, auto &array, auto member) {
            if (wanted >> n++ & 1) member(g) = array.view();
        });
        return g;
    }
    attune::Status run_forward(attune::Context &context) { return forward.run(context); }
    attune::Status run(attune::Context &context, std::string_view variant = {}, unsigned wanted = every_gradient) {
        return attune::additive_attention_backward(context, forward.base.query.view(), forward.base.key.view(),
                                                   forward.base.value.view(), results(), gradients(wanted), options(variant));
    }
    template<typename Real> AdditiveBackwardResult<Real> reference(Parts parts = Parts::signed_parts) {
        return additive_backward_reference<Real, T>(forward.base.query.view(), forward.base.key.view(),
                                                    forward.base.value.view(), results(), options(), parts);
    }
    // Bits of every wanted gradient.
    std::vector<std::vector<unsigned char>> bits(unsigned wanted = every_gradient) {
        std::vector<std::vector<unsigned char>> all;
        unsigned n = 0;
        each_gradient([&](const char *, auto &array, auto) {
            if (!(wanted >> n++ & 1)) return;
            const auto values = array.values();
            const auto *bytes = reinterpret_cast<const unsigned char *>(values.data());
            all.emplace_back(bytes, bytes + values.size() * sizeof(values[0]));
        });
        return all;
    }

private:
    template<typename E, typename Of> static Array<E> like(Of &array, int fill) {
        const attune::View v = array.view();
        return Array<E>({v.extent, v.extent + v.rank}, {v.stride, v.stride + v.rank}, poison<E>(fill));
    }
};

// Fault of the gradients; empty if there is none.
template<typename T> std::string defect(AdditiveBackwardArrays<T> &a, unsigned wanted = every_gradient) {
    const auto exact = a.template reference<Reference<T>>(), sizes = a.template reference<Reference<T>>(Parts::sizes);
    const auto steps = a.template reference<T>();
    std::string found;
    unsigned n = 0;
    a.each_gradient([&](const std::string &name, auto &array, auto member) {
        using E = std::decay_t<decltype(*array.data())>;
        const bool asked = wanted >> n++ & 1;
        if (!found.empty()) return;
        if (!asked) {
            if (!array.untouched()) found = name + ": written without being asked for";
            return;
        }
        const auto values = array.values();
        const std::vector<Sum<E>> plain(member(steps).begin(), member(steps).end());  // in f64, slopes and sinks are f32
        const Verdict verdict = judge(member(exact), plain, values, member(sizes));
        if (!array.gaps_untouched())
            found = name + ": written beyond its elements";
        else if (!array.all_written())
            found = name + ": not all elements written";
        else if (!verdict.right)
            found = name + ": " + verdict.why;
    });
    return found;
}

// Runs forward and backward of a case, the backward by a variant, and checks the gradients.
template<typename T> void check_additive(attune::Context &context, const AdditiveBackwardCase &c, std::string_view variant) {
    AdditiveBackwardArrays<T> a(c);
    INFO(describe(c));
    attune::Status status = a.run_forward(context);
    if (status.ok()) status = a.run(context, variant);
    INFO(status.message());
    CHECK(status.ok());
    if (status.ok()) CHECK(defect(a) == "");
}

}  // namespace attune_test
