// SPDX-License-Identifier: MIT
// Reference of masked_softmax_backward: one row after another, in Real, from the weights of the forward pass.
#pragma once
#include "tests/reference/masked_softmax_reference.h"

namespace attune_test {

// Gradients in the order of the elements. `sizes`: with absolute terms, so that g and the sum do not cancel.
template<typename Real, typename T>
std::vector<Real> masked_softmax_backward_reference(const attune::ConstView &out, const attune::ConstView &grad_out,
                                                    const attune::MaskedSoftmaxOptions &o, bool sizes = false) {
    const DenseRows<Real> weight = rows_of<Real, T>(out), grad = rows_of<Real, T>(grad_out);
    DenseRows<Real> result{weight.batch, weight.heads, weight.count, weight.width};
    const auto part = [&](Real x) { return sizes ? std::abs(x) : x; };
    for (Index b = 0; b < weight.batch; b++)
        for (Index h = 0; h < weight.heads; h++)
            for (Index i = 0; i < weight.count; i++) {
                const Index length = out.rank == 2 ? length_of(o, i, 0, weight.width) : length_of(o, b, i, weight.width);
                const Real *p = weight.row(b, h, i), *g = grad.row(b, h, i);
                Real sum = 0;
                for (Index j = 0; j < weight.width; j++)
                    if (p[j] != 0) sum += part(p[j] * g[j]);
                for (Index j = 0; j < length; j++)
                    if (p[j] != 0) result.row(b, h, i)[j] = p[j] * (part(g[j]) + (sizes ? sum : -sum));
            }
    return result.data;
}

}  // namespace attune_test
