// SPDX-License-Identifier: MIT
// Reference of linear_backward: one sum after another, in Real. Stored is the type of the results in memory, where narrower.
#pragma once
#include "tests/reference/elements.h"
#include <algorithm>

namespace attune_test {

// Gradients in C order. Without x there is no gradient by the weight, and without weight none by x.
template<typename Real> struct LinearBackwardResult { std::vector<Real> x, weight, bias; };

// Rows of grad_out (N wide) and of x (K wide); weight (N, K) is the rows of a batch of one. A row of grad_out that is all zeros
// takes no part in the gradient by the weight.
template<typename Real, typename Stored = Real>
LinearBackwardResult<Real> linear_backward_reference(const DenseRows<Real> &x, const DenseRows<Real> &weight,
                                                     const DenseRows<Real> &grad_out) {
    const auto size = [](Index a, Index b) { return std::size_t(a * b); };
    const Index columns = grad_out.width, depth = x.width ? x.width : weight.width;
    LinearBackwardResult<Real> result;
    result.bias.resize(std::size_t(columns));
    if (x.width) result.weight.resize(size(columns, depth));
    for (Index b = 0; b < grad_out.batch; b++)
        for (Index h = 0; h < grad_out.heads; h++)
            for (Index i = 0; i < grad_out.count; i++) {
                const Real *grad = grad_out.row(b, h, i);
                const bool used = std::any_of(grad, grad + columns, [](Real g) { return g != 0; });
                for (Index n = 0; n < columns; n++) {
                    result.bias[std::size_t(n)] += grad[n];
                    for (Index k = 0; used && k < x.width; k++)
                        result.weight[size(n, depth) + std::size_t(k)] += grad[n] * x.row(b, h, i)[k];
                }
                for (Index k = 0; k < weight.width; k++) {
                    Real sum = 0;
                    for (Index n = 0; n < columns; n++) sum += grad[n] * weight.row(0, 0, n)[k];
                    result.x.push_back(sum);
                }
            }
    for (std::vector<Real> *v : {&result.x, &result.weight, &result.bias})
        for (Real &sum : *v) sum = stored_as<Stored>(sum);
    return result;
}
// The reference for views of any rank.
template<typename Real, typename T, typename Stored = Real>
LinearBackwardResult<Real> linear_backward_reference(const attune::ConstView &x, const attune::ConstView &weight,
                                                     const attune::ConstView &grad_out) {
    const auto rows = [](const attune::ConstView &v) { return v.given() ? rows_of<Real, T>(v) : DenseRows<Real>{0, 0, 0, 0}; };
    return linear_backward_reference<Real, Stored>(rows(x), rows(weight), rows_of<Real, T>(grad_out));
}

}  // namespace attune_test
