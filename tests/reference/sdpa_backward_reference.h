// SPDX-License-Identifier: MIT
// Reference of scaled_dot_product_attention_backward: the chain rule along the steps of tests/reference/sdpa_reference.h, one
// pair of a query and a key after another, from given out and lse, all in Real. As there, in a wider type than the elements
// this is the reference, and in their own type the plain computation, which for 16-bit types stores scores, weights, their
// gradients and results in the type. Its weights are then based on the lse of the stored scores: with the given lse, the
// rounding of a large score would be a factor.
#pragma once
#include "attune/sdpa_backward.h"
#include "tests/reference/sdpa_reference.h"

namespace attune_test {

// Gradients as attune::SdpaGradients, in C order; empty where there is no such input.
template<typename Real> struct SdpaBackwardResult {
    std::vector<Real> query, key, value, bias, alibi_slopes, sinks, score_weight;
};

inline std::size_t elements_in(const attune::ConstView &x) {
    Index n = 1;
    for (int k = 0; k < x.rank; k++) n *= x.extent[k];
    return std::size_t(n);
}
inline attune::ConstView as_dense(attune::ConstView x) {
    Index n = 1;
    for (int k = x.rank; k-- > 0; n *= x.extent[k]) x.stride[k] = n;
    return x;
}

// Terms of a gradient: signed, or for the error rule by size, so that dP and D, and the terms P dO of dV, do not cancel: the
// rounding errors of a weight P are in proportion to its own term, and not to the sum after cancellation.
enum class Parts { signed_parts, sizes };

// Results of the forward pass, and the loss's gradients by them; grad_lse may be empty.
template<typename Real> struct SdpaForwardRows {
    DenseRows<Real> out;
    std::vector<Real> lse;
    DenseRows<Real> grad_out;
    std::vector<Real> grad_lse;
};

// Gradients by value, bias, slopes and sinks, for any score x(b, h, key head, i, j). The inputs of a score get their part from
// add_score_gradient(b, h, key head, i, j, gradient by x).
template<typename Real, typename T, typename Stored = Real, typename Score, typename AddScoreGradient>
SdpaBackwardResult<Real> attention_backward_reference(const AttentionSizes &s, const attune::SdpaOptions &o,
                                                      const DenseRows<Real> &value, const SdpaForwardRows<Real> &forward,
                                                      const Score &x, const AddScoreGradient &add_score_gradient, Parts parts) {
    const Real infinity = std::numeric_limits<Real>::infinity();
    const auto stored = [](Real x) { return stored_as<Stored>(x); };
    const auto part = [&](Real x) { return parts == Parts::sizes ? std::abs(x) : x; };
    const bool alibi = o.alibi || o.alibi_slopes.given();
    const attune::ConstView bias = as_dense(o.bias);
    DenseRows<Real> grad_value{value.batch, value.heads, value.count, value.width};
    SdpaBackwardResult<Real> result;
    if (o.bias.given()) result.bias.resize(elements_in(o.bias));
    if (alibi) result.alibi_slopes.resize(o.alibi_slopes.given() ? elements_in(o.alibi_slopes) : std::size_t(s.query_heads));
    if (o.sinks.given()) result.sinks.resize(std::size_t(s.query_heads));
    for (Index b = 0; b < s.batch; b++)
        for (Index h = 0; h < s.query_heads; h++)
            for (Index i = 0; i < s.queries; i++) {
                const Index key_head = h * s.key_heads / s.query_heads, row = (b * s.query_heads + h) * s.queries + i;
                const Real lse = forward.lse[std::size_t(row)], *out = forward.out.row(b, h, i),
                           *grad = forward.grad_out.row(b, h, i);
                std::vector<ScoreSteps<Real>> score;
                bool any = false;
                for (Index j = 0; j < s.keys; j++) {
                    score.push_back(score_steps<Real, T, Stored>(s, o, b, h, i, j, x(b, h, key_head, i, j)));
                    any = any || score.back().masked != -infinity;
                }
                if (lse == -infinity) continue;
                // Common part of the gradients by the row's scores, P (dP - D + dlse): -D + dlse, with D = sum of dO O.
                Real of_row = forward.grad_lse.empty() ? Real(0) : part(forward.grad_lse[std::size_t(row)]);
                for (Index d = 0; any && d < value.width; d++) of_row += part(-grad[d] * out[d]);
                if (o.sinks.given()) result.sinks[std::size_t(h)] += std::exp(sink_of<Real>(o, h) - lse) * of_row;
                for (Index j = 0; j < s.keys; j++) {
                    if (score[j].masked == -infinity) continue;
                    const Real weight = stored(std::exp(score[j].masked - lse));
                    Real weight_gradient = 0;
                    if (kept_by_dropout(o.dropout, s.query_heads, s.documents, b, h, i, j)) {
                        const Real factor = 1 / (1 - Real(o.dropout.probability));
                        for (Index d = 0; d < value.width; d++) {
                            weight_gradient += part(grad[d] * value.row(b, key_head, j)[d]);
                            grad_value.row(b, key_head, j)[d] += part(stored(factor * weight) * grad[d]);
                        }
                        weight_gradient = stored(factor * weight_gradient);
                    }
                    const Real score_gradient = stored(weight * (weight_gradient + of_row));
                    if (o.bias.given()) result.bias[std::size_t(broadcast_offset(bias, s.rank, b, h, i, j))] += score_gradient;
                    if (alibi)
                        result.alibi_slopes[std::size_t(o.alibi_slopes.rank == 2 ? b * s.query_heads + h : h)] -=
                            score_gradient * Real(alibi_distance(o, b, i, j, s.queries, s.keys));
                    const Real tanh = o.softcap > 0 ? score[j].capped / Real(o.softcap) : Real(0);
                    add_score_gradient(b, h, key_head, i, j, stored(score_gradient * (1 - tanh * tanh)));
                }
            }
    for (Real sum : grad_value.data) result.value.push_back(stored(sum));
    for (Real &sum : result.bias) sum = stored(sum);
    return result;
}

// Adds factor times the derivatives of similarity(q, k).
template<typename Real>
void add_similarity_gradient(attune::Score score, const Real *q, const Real *k, Index width, Real factor, Real *grad_q,
                             Real *grad_k) {
    Real q_square = 0, k_square = 0;
    for (Index d = 0; d < width; d++) q_square += q[d] * q[d], k_square += k[d] * k[d];
    if (score == attune::Score::cosine && (q_square == 0 || k_square == 0)) return;
    const Real norms = std::sqrt(q_square) * std::sqrt(k_square);
    const Real cosine = score == attune::Score::cosine ? similarity(score, q, k, width) : Real(0);
    for (Index d = 0; d < width; d++)
        if (score == attune::Score::gaussian) {
            grad_q[d] += factor * (k[d] - q[d]), grad_k[d] += factor * (q[d] - k[d]);
        } else if (score == attune::Score::cosine) {
            grad_q[d] += factor * (k[d] / norms - cosine * q[d] / q_square);
            grad_k[d] += factor * (q[d] / norms - cosine * k[d] / k_square);
        } else {
            grad_q[d] += factor * k[d], grad_k[d] += factor * q[d];
        }
}

// Inputs of a call.
struct SdpaBackwardInputs {
    attune::ConstView query, key, value;
    attune::SdpaForward forward;
    attune::SdpaOptions options;
    std::vector<std::int32_t> documents = {};
};

template<typename Real, typename T, typename Stored = Real>
SdpaBackwardResult<Real> sdpa_backward_of_rows(const DenseRows<Real> &query, const DenseRows<Real> &given_key,
                                               const DenseRows<Real> &value, const SdpaForwardRows<Real> &forward,
                                               const attune::SdpaOptions &options, int rank, Parts parts = Parts::signed_parts,
                                               const std::vector<std::int32_t> &documents = {}) {
    const bool general = options.score == attune::Score::general;
    const auto score_weight = general ? rows_of<Real, T>(options.score_weight) : DenseRows<Real>{0, 0, 0, 0};
    const auto key = general ? linear_reference<Real>(given_key, score_weight) : given_key;
    const Real scale = scale_of<Real>(options, query.width);
    const auto zeros_like = [](const DenseRows<Real> &x) { return DenseRows<Real>{x.batch, x.heads, x.count, x.width}; };
    auto grad_query = zeros_like(query), grad_key = zeros_like(key);
    auto result = attention_backward_reference<Real, T, Stored>(
        {query.batch, query.heads, key.heads, query.count, key.count, rank, documents}, options, value, forward,
        [&](Index b, Index h, Index key_head, Index i, Index j) {
            return scale * similarity(options.score, query.row(b, h, i), key.row(b, key_head, j), query.width);
        },
        [&](Index b, Index h, Index key_head, Index i, Index j, Real gradient) {
            add_similarity_gradient(options.score, query.row(b, h, i), key.row(b, key_head, j), query.width, scale * gradient,
                                    grad_query.row(b, h, i), grad_key.row(b, key_head, j));
        },
        parts);
    if (general) {
        // Back through W k. A key that no query sees has no part, whatever it holds.
        auto grad_given = zeros_like(given_key);
        result.score_weight.resize(score_weight.data.size());
        for (Index b = 0; b < key.batch; b++)
            for (Index h = 0; h < key.heads; h++)
                for (Index j = 0; j < key.count; j++)
                    for (Index n = 0; n < key.width; n++)
                        for (Index d = 0; d < given_key.width; d++) {
                            const Real gradient = grad_key.row(b, h, j)[n];
                            grad_given.row(b, h, j)[d] += gradient * score_weight.row(0, 0, n)[d];
                            if (gradient != 0)
                                result.score_weight[std::size_t(n * given_key.width + d)] +=
                                    gradient * given_key.row(b, h, j)[d];
                        }
        grad_key = grad_given;
    }
    for (Real sum : grad_query.data) result.query.push_back(stored_as<Stored>(sum));
    for (Real sum : grad_key.data) result.key.push_back(stored_as<Stored>(sum));
    return result;
}

template<typename Real, typename T, typename Stored = Real>
SdpaBackwardResult<Real> sdpa_backward_reference(const SdpaBackwardInputs &in, Parts parts = Parts::signed_parts) {
    const auto query = rows_of<Real, T>(in.query), key = rows_of<Real, T>(in.key), value = rows_of<Real, T>(in.value);
    const bool stored_scores = is_half<T> && std::is_same_v<Stored, T>;
    const std::vector<Real> lse = stored_scores
                                      ? sdpa_of_rows<Real, T, Stored>(query, key, value, in.options, in.query.rank).lse
                                      : rows_of<Real, Sum<T>>(in.forward.lse).data;
    const SdpaForwardRows<Real> forward{rows_of<Real, T>(in.forward.out), lse, rows_of<Real, T>(in.forward.grad_out),
                                        in.forward.grad_lse.given() ? rows_of<Real, Sum<T>>(in.forward.grad_lse).data
                                                                    : std::vector<Real>{}};
    return sdpa_backward_of_rows<Real, T, Stored>(query, key, value, forward, in.options, in.query.rank, parts, in.documents);
}

}  // namespace attune_test
