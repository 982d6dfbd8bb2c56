// SPDX-License-Identifier: MIT
// Reference of multi_head_attention: three projections, attention for each head, one projection, in Real. Stored is the type of
// all intermediate results in memory, where narrower.
#pragma once
#include "attune/multi_head.h"
#include "tests/reference/linear_reference.h"
#include "tests/reference/sdpa_reference.h"

namespace attune_test {

// (B, 1, S, heads * D) as (B, heads, S, D).
template<typename Real> DenseRows<Real> split_heads(const DenseRows<Real> &x, Index heads) {
    const Index width = x.width / heads;
    DenseRows<Real> split{x.batch, heads, x.count, width};
    for (Index b = 0; b < x.batch; b++)
        for (Index h = 0; h < heads; h++)
            for (Index i = 0; i < x.count; i++) std::copy_n(x.row(b, 0, i) + h * width, width, split.row(b, h, i));
    return split;
}

// (B, heads, S, D) back to (B, 1, S, heads * D).
template<typename Real> DenseRows<Real> join_heads(const DenseRows<Real> &x) {
    DenseRows<Real> joined{x.batch, 1, x.count, x.heads * x.width};
    for (Index b = 0; b < x.batch; b++)
        for (Index h = 0; h < x.heads; h++)
            for (Index i = 0; i < x.count; i++) std::copy_n(x.row(b, h, i), x.width, joined.row(b, 0, i) + h * x.width);
    return joined;
}

template<typename Real, typename T, typename Stored = Real>
SdpaResult<Real> multi_head_reference(const attune::ConstView &query, const attune::ConstView &key,
                                      const attune::ConstView &value, const attune::MultiHeadWeights &w,
                                      const attune::MultiHeadOptions &o) {
    const Index key_heads = o.key_heads ? o.key_heads : o.heads;
    const auto heads_of = [](const attune::ConstView &x, const attune::ConstView &weight, const attune::ConstView &bias,
                             Index heads) { return split_heads(linear_reference<Real, T, Stored>(x, weight, bias), heads); };
    SdpaResult<Real> result = sdpa_of_rows<Real, T, Stored>(heads_of(query, w.query, w.query_bias, o.heads),
                                                            heads_of(key, w.key, w.key_bias, key_heads),
                                                            heads_of(value, w.value, w.value_bias, key_heads), o.attention, 4);
    const DenseRows<Real> heads_out{query.extent[0], o.heads, query.extent[1], w.out.extent[1] / o.heads, result.out};
    const std::vector<Real> bias = w.out_bias.given() ? rows_of<Real, T>(w.out_bias).data : std::vector<Real>{};
    result.out = linear_reference<Real, Stored>(join_heads(heads_out), rows_of<Real, T>(w.out), bias).data;
    return result;
}

}  // namespace attune_test
