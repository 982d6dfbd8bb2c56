// SPDX-License-Identifier: MIT
// Reference of additive_attention: a tanh for each query, key and hidden channel, in Real.
#pragma once
#include "attune/additive.h"
#include "tests/reference/linear_reference.h"
#include "tests/reference/sdpa_reference.h"
#include <cmath>

namespace attune_test {

// Rows of the sum: W x + b, or x itself without W.
template<typename Real, typename T>
DenseRows<Real> projected(const attune::ConstView &x, const attune::ConstView &weight, const attune::ConstView &bias) {
    return weight.given() ? linear_reference<Real, T>(x, weight, bias) : rows_of<Real, T>(x);
}

template<typename Real, typename T>
SdpaResult<Real> additive_reference(const attune::ConstView &query, const attune::ConstView &key,
                                    const attune::ConstView &value, const attune::AdditiveOptions &o) {
    const DenseRows<Real> q = projected<Real, T>(query, o.w_query, o.b_query), k = projected<Real, T>(key, o.w_key, o.b_key);
    const std::vector<Real> w =
        o.w_score.given() ? rows_of<Real, T>(o.w_score).data : std::vector<Real>(std::size_t(q.width), Real(1));
    const Real scale = Real(o.attention.scale.value_or(1));
    return attention_reference<Real, T>({q.batch, q.heads, k.heads, q.count, k.count, query.rank}, o.attention,
                                        rows_of<Real, T>(value), [&](Index b, Index h, Index key_head, Index i) {
                                            std::vector<Real> x;
                                            for (Index j = 0; j < k.count; j++) {
                                                const Real *const a = q.row(b, h, i), *const c = k.row(b, key_head, j);
                                                Real sum = 0;
                                                for (Index n = 0; n < q.width; n++) sum += w[n] * std::tanh(a[n] + c[n]);
                                                x.push_back(scale * (sum + Real(o.b_score)));
                                            }
                                            return x;
                                        });
}

}  // namespace attune_test
