// SPDX-License-Identifier: MIT
// Reference of masked_softmax: one row after another, in Real.
#pragma once
#include "attune/masked_softmax.h"
#include "tests/reference/elements.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attune_test {

// Length of row i of batch entry b; scores of rank 2 are (B, Sk).
inline Index length_of(const attune::MaskedSoftmaxOptions &o, Index b, Index i, Index keys) {
    const attune::ConstView &lens = o.valid_lens;
    if (!lens.given()) return keys;
    return static_cast<const std::int32_t *>(lens.data)[b * lens.stride[0] + (lens.rank == 2 ? i * lens.stride[1] : 0)];
}

// Weights in the order of the scores' elements.
template<typename Real, typename T>
std::vector<Real> masked_softmax_reference(const attune::ConstView &scores, const attune::MaskedSoftmaxOptions &o) {
    DenseRows<Real> all = rows_of<Real, T>(scores);
    for (Index b = 0; b < all.batch; b++)
        for (Index h = 0; h < all.heads; h++)
            for (Index i = 0; i < all.count; i++) {
                Real *row = all.row(b, h, i);
                // In rank 2, rows are batch entries.
                const Index length = scores.rank == 2 ? length_of(o, i, 0, all.width) : length_of(o, b, i, all.width);
                const Index taking_part = o.fill == attune::MaskFill::seed ? all.width : length;
                std::fill(row + length, row + all.width, Real(-1e6));
                Real largest = -std::numeric_limits<Real>::infinity(), sum = 0;
                for (Index j = 0; j < taking_part; j++) largest = std::max(largest, row[j]);
                for (Index j = 0; j < taking_part; j++) sum += row[j] = std::exp(row[j] - largest);
                for (Index j = 0; j < taking_part; j++) row[j] /= sum;
                std::fill(row + taking_part, row + all.width, Real(0));
            }
    return all.data;
}

}  // namespace attune_test
