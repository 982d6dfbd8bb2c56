// SPDX-License-Identifier: MIT
// A call of a user's attention with random tensors, forward and backward, and its check.
#pragma once
#include "tests/reference/user_attention_reference.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <attune/detail/user_attention.h>
#include <random>

namespace attune_test {

template<typename T> struct UserArrays {
    UserSizes sizes;
    std::vector<T> query, key, value, out, grad_out, grad_query, grad_key, grad_value;
    std::vector<Sum<T>> lse;
    Captured<Sum<T>> captures;       // float captures, as given
    Captured<Sum<T>> grad_captures;  // the wanted ones

    UserArrays(const UserSizes &s, Captured<Sum<T>> c, unsigned seed) : sizes(s), captures(std::move(c)) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        const auto fill = [&](std::vector<T> &x, Index count) {
            x.resize(std::size_t(count));
            for (T &e : x) e = T(normal(random));
        };
        fill(query, s.batch * s.heads * s.queries * s.head_dim);
        fill(key, s.batch * s.key_heads * s.keys * s.head_dim);
        fill(value, s.batch * s.key_heads * s.keys * s.value_dim);
        fill(grad_out, s.batch * s.heads * s.queries * s.value_dim);
        const T poison = std::numeric_limits<T>::quiet_NaN();
        out.assign(grad_out.size(), poison), lse.assign(std::size_t(s.batch * s.heads * s.queries), Sum<T>(poison));
        grad_query.assign(query.size(), poison), grad_key.assign(key.size(), poison), grad_value.assign(value.size(), poison);
        for (const auto &x : captures) grad_captures.emplace_back(x.size(), Sum<T>(poison));
    }

    attune::View q_like(std::vector<T> &x) {
        return attune::View(x.data(), {sizes.batch, sizes.heads, sizes.queries, sizes.head_dim});
    }
    attune::View k_like(std::vector<T> &x) {
        return attune::View(x.data(), {sizes.batch, sizes.key_heads, sizes.keys, sizes.head_dim});
    }
    attune::View v_like(std::vector<T> &x) {
        return attune::View(x.data(), {sizes.batch, sizes.key_heads, sizes.keys, sizes.value_dim});
    }
    attune::View o_like(std::vector<T> &x) {
        return attune::View(x.data(), {sizes.batch, sizes.heads, sizes.queries, sizes.value_dim});
    }
    attune::View lse_view() { return attune::View(lse.data(), {sizes.batch, sizes.heads, sizes.queries}); }
    attune::SdpaForward forward() { return {o_like(out), lse_view(), o_like(grad_out), {}}; }
    attune::SdpaGradients gradients() {
        return {.query = q_like(grad_query), .key = k_like(grad_key), .value = v_like(grad_value)};
    }
};

// Checks every output by the rule of error_rule.h. `wanted`: captures with wanted gradients. Without `gradients`, those of the
// forward pass alone.
template<typename Formula, typename T>
void check_user_attention(const UserArrays<T> &a, const std::vector<std::size_t> &wanted, bool gradients = true) {
    using Real = Reference<T>;
    const UserSizes &s = a.sizes;
    const auto compute = [&](auto zero, auto stored) {
        using R = decltype(zero);
        const auto rows = [](const std::vector<T> &x, Index batch, Index heads, Index count, Index width) {
            return DenseRows<R>{batch, heads, count, width, std::vector<R>(x.begin(), x.end())};
        };
        Captured<R> captures;
        for (const auto &c : a.captures) captures.emplace_back(c.begin(), c.end());
        // Gradients take the output as it is rounded to 16 bits, and the lse; the plain computation of 16 bits has that of its
        // own scores.
        const DenseRows<R> attended = rows(a.out, s.batch, s.heads, s.queries, s.value_dim);
        const std::vector<R> lse(a.lse.begin(), a.lse.end());
        return user_attention_reference<Formula, R, decltype(stored)>(
            s, rows(a.query, s.batch, s.heads, s.queries, s.head_dim), rows(a.key, s.batch, s.key_heads, s.keys, s.head_dim),
            rows(a.value, s.batch, s.key_heads, s.keys, s.value_dim), captures,
            rows(a.grad_out, s.batch, s.heads, s.queries, s.value_dim), gradients ? wanted : std::vector<std::size_t>(),
            is_half<T> ? &attended : nullptr, gradients && !is_half<decltype(stored)> ? &lse : nullptr);
    };
    const UserResult<Real> reference = compute(Real(0), Real(0));
    const UserResult<Sum<T>> plain = compute(Sum<T>(0), T(0));
    const auto judged = [](const char *what, const std::vector<Real> &r, const auto &p, const auto &x,
                           const std::vector<Real> &sizes) {
        const Verdict v = judge(r, p, x, sizes);
        INFO(what << ": " << v.why);
        CHECK(v.right);
        CHECK_FALSE(suspiciously_empty(clear_elements(r, p, sizes), x));
    };
    judged("out", reference.out.data, plain.out.data, a.out, reference.out.data);
    judged("lse", reference.lse, plain.lse, a.lse, reference.lse);
    CHECK_FALSE(suspiciously_empty(reference.out.data, a.out));
    CHECK_FALSE(suspiciously_empty(reference.lse, a.lse));
    if (!gradients) return;
    judged("gradient of query", reference.query.data, plain.query.data, a.grad_query, reference.query_sizes.data);
    judged("gradient of key", reference.key.data, plain.key.data, a.grad_key, reference.key_sizes.data);
    judged("gradient of value", reference.value.data, plain.value.data, a.grad_value, reference.value.data);
    for (const std::size_t c : wanted) {
        INFO("capture " << c);
        judged("gradient of a capture", reference.captures[c], plain.captures[c], a.grad_captures[c],
               reference.capture_sizes[c]);
    }
}

}  // namespace attune_test
