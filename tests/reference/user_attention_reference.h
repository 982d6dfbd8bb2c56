// SPDX-License-Identifier: MIT
// Reference of a user's attention: its formula, pair by pair, in Real. In a wider type than the elements this is the reference,
// in their own type the plain computation. Derivatives of the formula are differences in long double, independent of the
// library's derivatives.
#pragma once
#include "tests/reference/elements.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attune_test {

// Arguments of a formula: the members of attune::Index.
struct Pair {
    Index b, h, i, j, position, key_head, heads, queries, keys;
};
// Elements of the captures, each in C order; a number is one element.
template<typename Real> using Captured = std::vector<std::vector<Real>>;

// A formula has, as static templates by Real:
//   Real score(Real x, const Pair &, const Captured<Real> &)
//   bool mask(const Pair &, const Captured<Real> &)
//   Real factor(const Pair &, const Captured<Real> &)

struct UserSizes {
    Index batch, heads, key_heads, queries, keys, head_dim, value_dim;
    double scale;
    std::vector<Index> offset;  // per batch entry
    std::vector<Index> lengths;
};

template<typename Real> struct UserResult {
    DenseRows<Real> out;
    std::vector<Real> lse;
    DenseRows<Real> query, key, value;  // gradients
    Captured<Real> captures;            // gradients
    // Sizes of the terms of a gradient, for the error rule: dP and D may cancel.
    DenseRows<Real> query_sizes, key_sizes;
    Captured<Real> capture_sizes;
};

// The derivative of f(x) at x, by differences of order 6: in long double their error is far below the rounding of a double.
template<typename F> long double difference(const F &f, long double x) {
    const long double h = 1e-3L * std::max(1.0L, std::abs(x));
    const auto pair = [&](int n) { return f(x + n * h) - f(x - n * h); };
    return (45 * pair(1) - 9 * pair(2) + pair(3)) / (60 * h);
}

// The forward pass, and the gradients of sum(out * grad_out). `wanted`: the captures that have a gradient. Stored: the type to
// which each step is rounded, in the plain computation of 16-bit elements; captures and their gradients are not. attended: the
// output that the gradients are given, where rounding makes it another one; kept_lse: the lse that they are given.
template<typename Formula, typename Real, typename Stored = Real>
UserResult<Real> user_attention_reference(const UserSizes &s, const DenseRows<Real> &query, const DenseRows<Real> &key,
                                          const DenseRows<Real> &value, const Captured<Real> &captures,
                                          const DenseRows<Real> &grad_out, const std::vector<std::size_t> &wanted,
                                          const DenseRows<Real> *attended = nullptr,
                                          const std::vector<Real> *kept_lse = nullptr) {
    using Wide = long double;
    const auto stored = [](Real x) { return stored_as<Stored>(x); };
    const Real infinity = std::numeric_limits<Real>::infinity();
    const DenseRows<Real> query_like{s.batch, s.heads, s.queries, s.head_dim},
        key_like{s.batch, s.key_heads, s.keys, s.head_dim};
    UserResult<Real> r{{s.batch, s.heads, s.queries, s.value_dim},
                       {},
                       query_like,
                       key_like,
                       {s.batch, s.key_heads, s.keys, s.value_dim},
                       {},
                       query_like,
                       key_like,
                       {}};
    Captured<Wide> wide;
    for (const auto &c : captures) {
        r.captures.emplace_back(c.size(), Real(0)), r.capture_sizes.emplace_back(c.size(), Real(0));
        wide.emplace_back(c.begin(), c.end());
    }
    for (Index b = 0; b < s.batch; b++)
        for (Index h = 0; h < s.heads; h++)
            for (Index i = 0; i < s.queries; i++) {
                const Index g = h * s.key_heads / s.heads;
                const auto at = [&](Index j) {
                    return Pair{b, h, i, j, i + s.offset[std::size_t(b)], g, s.heads, s.queries, s.keys};
                };
                std::vector<Real> scaled(std::size_t(s.keys), Real(0)), score(std::size_t(s.keys), -infinity);
                Real most = -infinity, sum = 0;
                for (Index j = 0; j < s.keys; j++) {
                    for (Index d = 0; d < s.head_dim; d++) scaled[j] += query.row(b, h, i)[d] * key.row(b, g, j)[d];
                    scaled[j] = stored(scaled[j] * Real(s.scale));
                    if (j >= s.lengths[std::size_t(b)] || !Formula::mask(at(j), captures)) continue;
                    score[j] = stored(Formula::score(scaled[j], at(j), captures));
                    most = std::max(most, score[j]);
                }
                for (const Real x : score)
                    if (x != -infinity) sum += std::exp(x - most);
                const Real lse = sum == 0 ? -infinity : most + std::log(sum);
                r.lse.push_back(lse);
                Real *out = r.out.row(b, h, i);
                for (Index j = 0; j < s.keys; j++) {
                    if (score[j] == -infinity) continue;
                    const Real weight = stored(std::exp(score[j] - lse) * Formula::factor(at(j), captures));
                    for (Index d = 0; d < s.value_dim; d++) out[d] += weight * value.row(b, g, j)[d];
                }
                for (Index d = 0; d < s.value_dim; d++) out[d] = stored(out[d]);
                const Real *grad = grad_out.row(b, h, i);
                const Real *given = attended ? attended->row(b, h, i) : out;
                Real delta = 0, delta_size = 0;
                for (Index d = 0; d < s.value_dim; d++) delta += grad[d] * given[d], delta_size += std::abs(grad[d] * given[d]);
                for (Index j = 0; j < s.keys; j++) {
                    if (score[j] == -infinity) continue;
                    const Pair pair = at(j);
                    const Real p = std::exp(score[j] - (kept_lse ? (*kept_lse)[r.lse.size() - 1] : lse)),
                               factor = Formula::factor(pair, captures);
                    Real by_weight = 0, by_weight_size = 0;
                    for (Index d = 0; d < s.value_dim; d++) {
                        by_weight += grad[d] * value.row(b, g, j)[d];
                        by_weight_size += std::abs(grad[d] * value.row(b, g, j)[d]);
                        r.value.row(b, g, j)[d] += stored(p * factor) * grad[d];
                    }
                    const Real by_score = p * (by_weight * factor - delta);
                    const Real size = p * (by_weight_size * std::abs(factor) + delta_size);
                    const Wide by_scaled = difference([&](Wide x) { return Formula::score(x, pair, wide); }, Wide(scaled[j]));
                    const Real slope = Real(by_scaled) * Real(s.scale), by_product = stored(by_score * slope);
                    for (Index d = 0; d < s.head_dim; d++) {
                        r.query.row(b, h, i)[d] += by_product * key.row(b, g, j)[d];
                        r.key.row(b, g, j)[d] += by_product * query.row(b, h, i)[d];
                        r.query_sizes.row(b, h, i)[d] += size * std::abs(slope * key.row(b, g, j)[d]);
                        r.key_sizes.row(b, g, j)[d] += size * std::abs(slope * query.row(b, h, i)[d]);
                    }
                    for (const std::size_t c : wanted)
                        for (std::size_t n = 0; n < captures[c].size(); n++) {
                            Wide &element = wide[c][n];
                            const Wide from = element;
                            const Wide of_score = difference(
                                [&](Wide x) {
                                    element = x;
                                    return Formula::score(Wide(scaled[j]), pair, wide);
                                },
                                from);
                            const Wide of_factor = difference(
                                [&](Wide x) {
                                    element = x;
                                    return Formula::factor(pair, wide);
                                },
                                from);
                            element = from;
                            r.captures[c][n] += by_score * Real(of_score) + p * by_weight * Real(of_factor);
                            r.capture_sizes[c][n] +=
                                size * std::abs(Real(of_score)) + p * by_weight_size * std::abs(Real(of_factor));
                        }
                }
            }
    for (DenseRows<Real> *gradient : {&r.query, &r.key, &r.value})
        for (Real &x : gradient->data) x = stored(x);
    return r;
}

}  // namespace attune_test
