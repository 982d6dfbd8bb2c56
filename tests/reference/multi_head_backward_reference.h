// SPDX-License-Identifier: MIT
// Reference of multi_head_attention_backward: the layer of multi_head_reference.h, then the gradients of its last linear map,
// its attention and its projections, in Real. Stored is the type of all intermediate results in memory, where narrower.
#pragma once
#include "attune/multi_head_backward.h"
#include "tests/reference/linear_backward_reference.h"
#include "tests/reference/multi_head_reference.h"
#include "tests/reference/sdpa_backward_reference.h"

namespace attune_test {

// Gradients as attune::MultiHeadGradients, in C order; those of biases exist whether the layer has biases or not.
template<typename Real> struct MultiHeadBackwardResult {
    LinearBackwardResult<Real> query, key, value, out;  // for each map; x is the gradient by its input
    SdpaBackwardResult<Real> attention;
};

template<typename Real, typename T, typename Stored = Real>
MultiHeadBackwardResult<Real>
multi_head_backward_reference(const attune::ConstView &query, const attune::ConstView &key, const attune::ConstView &value,
                              const attune::MultiHeadWeights &w, const attune::ConstView &grad_out,
                              const attune::MultiHeadOptions &o, Parts parts = Parts::signed_parts) {
    const Index key_heads = o.key_heads ? o.key_heads : o.heads;
    const auto heads_of = [](const attune::ConstView &x, const attune::ConstView &weight, const attune::ConstView &bias,
                             Index heads) { return split_heads(linear_reference<Real, T, Stored>(x, weight, bias), heads); };
    const auto q = heads_of(query, w.query, w.query_bias, o.heads), k = heads_of(key, w.key, w.key_bias, key_heads),
               v = heads_of(value, w.value, w.value_bias, key_heads);
    const auto forward = sdpa_of_rows<Real, T, Stored>(q, k, v, o.attention, 4);
    const DenseRows<Real> heads_out{q.batch, o.heads, q.count, v.width, forward.out};

    // For sizes, all factors are absolute values.
    const auto rows = [&](const attune::ConstView &x) {
        auto all = rows_of<Real, T>(x);
        for (Real &element : all.data) element = parts == Parts::sizes ? std::abs(element) : element;
        return all;
    };
    MultiHeadBackwardResult<Real> result;
    const auto grad = rows_of<Real, T>(grad_out);
    result.out = linear_backward_reference<Real, Stored>(join_heads(heads_out), rows_of<Real, T>(w.out), grad);
    const auto grad_heads_out = split_heads(DenseRows<Real>{q.batch, 1, q.count, w.out.extent[1], result.out.x}, o.heads);
    result.attention =
        sdpa_backward_of_rows<Real, T, Stored>(q, k, v, {heads_out, forward.lse, grad_heads_out, {}}, o.attention, 4, parts);
    const auto through = [&](const attune::ConstView &x, const attune::ConstView &weight, const DenseRows<Real> &like,
                             const std::vector<Real> &gradient) {
        const auto joined = join_heads(DenseRows<Real>{like.batch, like.heads, like.count, like.width, gradient});
        return linear_backward_reference<Real, Stored>(rows(x), rows(weight), joined);
    };
    result.query = through(query, w.query, q, result.attention.query);
    result.key = through(key, w.key, k, result.attention.key);
    result.value = through(value, w.value, v, result.attention.value);
    return result;
}

}  // namespace attune_test
