// SPDX-License-Identifier: MIT
// Reference of scaled_dot_product_attention: textbook loops, one query at a time, all in Real. In a wider type than the
// elements this is the reference; in the type of the elements it is the plain computation of the error rule
// (tests/support/error_rule.h). For 16-bit types that takes its steps in float, and stores scores, weights and results in the
// type, Stored, as unfused computations of other libraries do. No tile, no KV block, no base 2. Arguments are assumed to be
// legal.
#pragma once
#include "attune/sdpa.h"
#include "tests/reference/linear_reference.h"
#include "tests/reference/masks_reference.h"
#include "tests/reference/philox_reference.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attune_test {

template<typename Real> struct SdpaResult {
    std::vector<Real> out;      // (B, Hq, Sq, Dv)
    std::vector<Real> lse;      // (B, Hq, Sq)
    std::vector<Real> weights;  // (B, Hq, Sq, Sk) or averaged over the heads (B, Sq, Sk), if wanted
};
struct AttentionSizes {
    Index batch, query_heads, key_heads, queries, keys;
    int rank = 4;                              // rank to which masks and bias broadcast
    std::vector<std::int32_t> documents = {};  // begins of packed documents, as dropout counts them; the mask parts them
};

// Steps of a score: scaled, after softcap, and as it is normalised, -inf where the key takes no part.
template<typename Real> struct ScoreSteps { Real scaled, capped, masked; };
template<typename Real, typename T, typename Stored>
ScoreSteps<Real> score_steps(const AttentionSizes &s, const attune::SdpaOptions &o, Index b, Index h, Index i, Index j,
                             Real x) {
    const Real infinity = std::numeric_limits<Real>::infinity(), cap = Real(o.softcap), scaled = stored_as<Stored>(x);
    const Real capped = stored_as<Stored>(cap > 0 ? cap * std::tanh(scaled / cap) : scaled);
    if (!takes_part(o, b, i, j, s.queries, s.keys) || !let_through<T>(o, s.rank, b, h, i, j))
        return {scaled, capped, -infinity};
    const Real score = capped + added_to_score<Real, T>(o, s.rank, s.query_heads, b, h, i, j, s.queries, s.keys);
    return {scaled, capped, score < lowest_score<T>() ? -infinity : stored_as<Stored>(score)};
}
template<typename Real> Real sink_of(const attune::SdpaOptions &o, Index h) {
    return o.sinks.given() ? Real(static_cast<const float *>(o.sinks.data)[h * o.sinks.stride[0]])
                           : -std::numeric_limits<Real>::infinity();
}

// Attention by any scores: x(b, h, key head, i) are the scaled scores of a query and all keys. T is the type of the options'
// arrays.
template<typename Real, typename T, typename Stored = Real, typename Score>
SdpaResult<Real> attention_reference(const AttentionSizes &s, const attune::SdpaOptions &o, const DenseRows<Real> &value,
                                     const Score &x) {
    using attune::WeightsMode;
    const Real infinity = std::numeric_limits<Real>::infinity();
    const auto stored = [](Real x) { return stored_as<Stored>(x); };
    const bool average = o.average_weights && s.rank == 4;
    SdpaResult<Real> result;
    if (o.weights.given())
        result.weights.resize(std::size_t(s.batch * (average ? 1 : s.query_heads) * s.queries * s.keys), Real(0));
    for (Index b = 0; b < s.batch; b++)
        for (Index h = 0; h < s.query_heads; h++)
            for (Index i = 0; i < s.queries; i++) {
                const Index key_head = h * s.key_heads / s.query_heads;
                std::vector<Real> scaled, capped, masked, weight;
                const std::vector<Real> scores = x(b, h, key_head, i);
                for (Index j = 0; j < s.keys; j++) {
                    const auto steps = score_steps<Real, T, Stored>(s, o, b, h, i, j, scores[j]);
                    scaled.push_back(steps.scaled), capped.push_back(steps.capped), masked.push_back(steps.masked);
                }
                const Real sink = sink_of<Real>(o, h);
                Real largest = sink;
                for (Real score : masked) largest = std::max(largest, score);
                Real sum = largest == -infinity ? 0 : std::exp(sink - largest);
                for (Real score : masked)
                    weight.push_back(score == -infinity ? 0 : std::exp(score - largest)), sum += weight.back();
                result.lse.push_back(sum == 0 ? -infinity : largest + std::log(sum));

                std::vector<Real> pv(std::size_t(value.width), 0);
                for (Index j = 0; j < s.keys; j++) {
                    // The contents of a masked key have no effect: it is skipped, not multiplied by 0.
                    if (masked[j] == -infinity) continue;
                    weight[j] = stored(weight[j] / sum);
                    if (!kept_by_dropout(o.dropout, s.query_heads, s.documents, b, h, i, j)) continue;
                    const Real factor = weight[j] / (1 - Real(o.dropout.probability)), *row = value.row(b, key_head, j);
                    for (Index d = 0; d < value.width; d++) pv[d] += factor * row[d];
                }
                for (Real sum_of_values : pv) result.out.push_back(stored(sum_of_values));
                if (!o.weights.given()) continue;
                const std::vector<Real> &asked = o.weights_mode == WeightsMode::scaled   ? scaled
                                                 : o.weights_mode == WeightsMode::capped ? capped
                                                 : o.weights_mode == WeightsMode::masked ? masked
                                                                                         : weight;
                const Index row = (average ? b : b * s.query_heads + h) * s.queries + i;
                for (Index j = 0; j < s.keys; j++)
                    result.weights[row * s.keys + j] += average ? asked[j] / Real(s.query_heads) : asked[j];
            }
    for (Real &w : result.weights) w = stored(w);
    return result;
}

// The score of one query and one key of the same width, without its scale.
template<typename Real> Real similarity(attune::Score score, const Real *q, const Real *k, Index width) {
    Real dot = 0, q_square = 0, k_square = 0, distance = 0;
    for (Index d = 0; d < width; d++) {
        dot += q[d] * k[d], q_square += q[d] * q[d], k_square += k[d] * k[d], distance += (q[d] - k[d]) * (q[d] - k[d]);
    }
    if (score == attune::Score::gaussian) return -distance / 2;
    if (score != attune::Score::cosine) return dot;
    return q_square == 0 || k_square == 0 ? 0 : dot / (std::sqrt(q_square) * std::sqrt(k_square));
}

// Scores of one query and all keys of a head. Four keys are summed at a time, each sum in the order of the channels: with one
// key at a time, most of the tests' time was the latency of one sum.
template<typename Real>
std::vector<Real> similarities(attune::Score score, const Real *q, const DenseRows<Real> &key, Index b, Index head) {
    const Index width = key.width;
    const bool products = score == attune::Score::dot_product || score == attune::Score::general;
    std::vector<Real> all;
    for (Index j = 0; j < key.count;) {
        const Real *k = key.row(b, head, j);
        if (products && j + 4 <= key.count) {
            Real first = 0, second = 0, third = 0, fourth = 0;
            for (Index d = 0; d < width; d++) {
                first += q[d] * k[d], second += q[d] * k[d + width];
                third += q[d] * k[d + 2 * width], fourth += q[d] * k[d + 3 * width];
            }
            all.insert(all.end(), {first, second, third, fourth}), j += 4;
        } else {
            all.push_back(similarity(score, q, k, width)), j++;
        }
    }
    return all;
}

template<typename Real> Real scale_of(const attune::SdpaOptions &options, Index width) {
    if (options.scale) return Real(*options.scale);
    return options.score == attune::Score::dot_product ? 1 / std::sqrt(Real(width)) : Real(1);
}

template<typename Real, typename T, typename Stored = Real>
SdpaResult<Real> sdpa_of_rows(const DenseRows<Real> &query, const DenseRows<Real> &given_key, const DenseRows<Real> &value,
                              const attune::SdpaOptions &options, int rank, const std::vector<std::int32_t> &documents = {}) {
    // q . (W k): a plain product with projected keys.
    const DenseRows<Real> key = options.score == attune::Score::general
                                    ? linear_reference<Real>(given_key, rows_of<Real, T>(options.score_weight))
                                    : given_key;
    const Real scale = scale_of<Real>(options, query.width);
    return attention_reference<Real, T, Stored>({query.batch, query.heads, key.heads, query.count, key.count, rank, documents},
                                                options, value, [&](Index b, Index h, Index key_head, Index i) {
                                                    auto x = similarities(options.score, query.row(b, h, i), key, b, key_head);
                                                    for (Real &score : x) score *= scale;
                                                    return x;
                                                });
}

template<typename Real, typename T, typename Stored = Real>
SdpaResult<Real> sdpa_reference(const attune::ConstView &query, const attune::ConstView &key, const attune::ConstView &value,
                                const attune::SdpaOptions &options, const std::vector<std::int32_t> &documents = {}) {
    return sdpa_of_rows<Real, T, Stored>(rows_of<Real, T>(query), rows_of<Real, T>(key), rows_of<Real, T>(value), options,
                                         query.rank, documents);
}
template<typename T>
SdpaResult<Sum<T>> plain_sdpa(const attune::ConstView &query, const attune::ConstView &key, const attune::ConstView &value,
                              const attune::SdpaOptions &options, const std::vector<std::int32_t> &documents = {}) {
    return sdpa_reference<Sum<T>, T, T>(query, key, value, options, documents);
}

}  // namespace attune_test
