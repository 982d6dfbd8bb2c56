// SPDX-License-Identifier: MIT
// Reference of linear and batch_dot: one sum after another, in Real. Stored is the type of the result in memory, where
// narrower.
#pragma once
#include "tests/reference/elements.h"

namespace attune_test {

// x weight^T + bias; weight (N, K) and bias (N) are single rows of a batch of one.
template<typename Real, typename Stored = Real>
DenseRows<Real> linear_reference(const DenseRows<Real> &x, const DenseRows<Real> &weight, const std::vector<Real> &bias = {}) {
    DenseRows<Real> out{x.batch, x.heads, x.count, weight.count};
    for (Index b = 0; b < x.batch; b++)
        for (Index h = 0; h < x.heads; h++)
            for (Index i = 0; i < x.count; i++)
                for (Index n = 0; n < weight.count; n++) {
                    Real sum = 0;
                    for (Index k = 0; k < x.width; k++) sum += x.row(b, h, i)[k] * weight.row(0, 0, n)[k];
                    out.row(b, h, i)[n] = stored_as<Stored>(bias.empty() ? sum : sum + bias[std::size_t(n)]);
                }
    return out;
}
// The reference for views, x of any rank; bias may be left out.
template<typename Real, typename T, typename Stored = Real>
DenseRows<Real> linear_reference(const attune::ConstView &x, const attune::ConstView &weight, const attune::ConstView &bias) {
    return linear_reference<Real, Stored>(rows_of<Real, T>(x), rows_of<Real, T>(weight),
                                          bias.given() ? rows_of<Real, T>(bias).data : std::vector<Real>{});
}

// a x, for each (b, h).
template<typename Real, typename T, typename Stored = Real>
DenseRows<Real> batch_dot_reference(const attune::ConstView &a, const attune::ConstView &x) {
    const DenseRows<Real> left = rows_of<Real, T>(a), right = rows_of<Real, T>(x);
    DenseRows<Real> out{left.batch, left.heads, left.count, right.width};
    for (Index b = 0; b < left.batch; b++)
        for (Index h = 0; h < left.heads; h++)
            for (Index i = 0; i < left.count; i++)
                for (Index k = 0; k < left.width; k++)
                    for (Index n = 0; n < right.width; n++) out.row(b, h, i)[n] += left.row(b, h, i)[k] * right.row(b, h, k)[n];
    for (Real &x : out.data) x = stored_as<Stored>(x);
    return out;
}

}  // namespace attune_test
