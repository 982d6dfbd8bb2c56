// SPDX-License-Identifier: MIT
// Reference of additive_attention_backward (docs/conventions.md row 27): with t = tanh(q + k) of projected rows and dS the
// gradient by the score, dw = sum dS t, dq = sum dS w (1 - t^2), dk likewise; then back through the projections.
#pragma once
#include "attune/additive_backward.h"
#include "tests/reference/additive_reference.h"
#include "tests/reference/linear_backward_reference.h"
#include "tests/reference/sdpa_backward_reference.h"

namespace attune_test {

// Gradients as attune::AdditiveGradients, in C order; empty where there is no such input.
template<typename Real> struct AdditiveBackwardResult {
    std::vector<Real> query, key, value, w_query, w_key, b_query, b_key, w_score, bias, alibi_slopes, sinks;
};

template<typename Real> DenseRows<Real> in_parts(DenseRows<Real> x, Parts parts) {
    for (Real &e : x.data)
        if (parts == Parts::sizes) e = std::abs(e);
    return x;
}

// Adds the gradients by x, W and b from the gradient by W x + b; without W, x gets that gradient.
template<typename Real, typename T>
void add_projection_gradients(const attune::ConstView &x, const attune::ConstView &weight, bool has_bias,
                              const DenseRows<Real> &grad, Parts parts, std::vector<Real> &by_x, std::vector<Real> &by_weight,
                              std::vector<Real> &by_bias) {
    if (!weight.given()) {
        by_x = grad.data;
        return;
    }
    const auto rows = [&](const attune::ConstView &v) { return in_parts(rows_of<Real, T>(v), parts); };
    auto result = linear_backward_reference<Real>(rows(x), rows(weight), grad);
    by_x = result.x, by_weight = result.weight;
    if (has_bias) by_bias = result.bias;
}

template<typename Real, typename T>
AdditiveBackwardResult<Real> additive_backward_reference(const attune::ConstView &query, const attune::ConstView &key,
                                                         const attune::ConstView &value_view,
                                                         const attune::SdpaForward &forward, const attune::AdditiveOptions &o,
                                                         Parts parts = Parts::signed_parts) {
    const DenseRows<Real> q = projected<Real, T>(query, o.w_query, o.b_query), k = projected<Real, T>(key, o.w_key, o.b_key);
    const DenseRows<Real> value = rows_of<Real, T>(value_view);
    const std::vector<Real> w =
        o.w_score.given() ? rows_of<Real, T>(o.w_score).data : std::vector<Real>(std::size_t(q.width), Real(1));
    const Real scale = Real(o.attention.scale.value_or(1));
    const auto zeros_like = [](const DenseRows<Real> &x) { return DenseRows<Real>{x.batch, x.heads, x.count, x.width}; };
    const auto part = [&](Real x) { return parts == Parts::sizes ? std::abs(x) : x; };
    auto grad_q = zeros_like(q), grad_k = zeros_like(k);
    std::vector<Real> grad_w(w.size());
    auto of_attention = attention_backward_reference<Real, T>(
        {q.batch, q.heads, k.heads, q.count, k.count, query.rank}, o.attention, value,
        {rows_of<Real, T>(forward.out), rows_of<Real, Sum<T>>(forward.lse).data, rows_of<Real, T>(forward.grad_out),
         forward.grad_lse.given() ? rows_of<Real, Sum<T>>(forward.grad_lse).data : std::vector<Real>{}},
        [&](Index b, Index h, Index key_head, Index i, Index j) {
            const Real *const x = q.row(b, h, i), *const y = k.row(b, key_head, j);
            Real sum = 0;
            for (Index n = 0; n < q.width; n++) sum += w[n] * std::tanh(x[n] + y[n]);
            return scale * (sum + Real(o.b_score));
        },
        [&](Index b, Index h, Index key_head, Index i, Index j, Real gradient) {
            for (Index n = 0; n < q.width; n++) {
                const Real t = std::tanh(q.row(b, h, i)[n] + k.row(b, key_head, j)[n]);
                const Real by_sum = part(scale * gradient * w[n] * (1 - t * t));
                grad_q.row(b, h, i)[n] += by_sum;
                grad_k.row(b, key_head, j)[n] += by_sum;
                grad_w[n] += part(scale * gradient * t);
            }
        },
        parts);
    AdditiveBackwardResult<Real> result;
    add_projection_gradients<Real, T>(query, o.w_query, o.b_query.given(), grad_q, parts, result.query, result.w_query,
                                      result.b_query);
    add_projection_gradients<Real, T>(key, o.w_key, o.b_key.given(), grad_k, parts, result.key, result.w_key, result.b_key);
    if (o.w_score.given()) result.w_score = grad_w;
    result.value = of_attention.value, result.bias = of_attention.bias, result.alibi_slopes = of_attention.alibi_slopes;
    result.sinks = of_attention.sinks;
    return result;
}

}  // namespace attune_test
