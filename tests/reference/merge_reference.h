// SPDX-License-Identifier: MIT
// Reference of merge_attention: one row at a time, all in Real. Arguments are assumed to be legal.
#pragma once
#include "tests/reference/elements.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace attune_test {

template<typename Real> struct MergeResult {
    std::vector<Real> out, lse;  // (B, Hq, Sq, Dv), (B, Hq, Sq)
};

// The reference for arrays of rank 4, with lse of rank 3.
template<typename Real, typename T>
MergeResult<Real> merge_reference(const attune::ConstView &out_a, const attune::ConstView &lse_a,
                                  const attune::ConstView &out_b, const attune::ConstView &lse_b) {
    const Real infinity = std::numeric_limits<Real>::infinity();
    MergeResult<Real> result;
    for (Index b = 0; b < out_a.extent[0]; b++)
        for (Index h = 0; h < out_a.extent[1]; h++)
            for (Index i = 0; i < out_a.extent[2]; i++) {
                const auto lse_of = [&](const attune::ConstView &v) {
                    return Real(static_cast<const Sum<T> *>(v.data)[b * v.stride[0] + h * v.stride[1] + i * v.stride[2]]);
                };
                const Real x = lse_of(lse_a), y = lse_of(lse_b);
                const bool empty_x = x == -infinity, empty_y = y == -infinity;
                // std::max() would drop a NaN.
                const Real larger = empty_x ? y : empty_y || !(x < y) ? x : y, smaller = larger == x ? y : x;
                const Real lse = empty_x || empty_y ? larger : larger + std::log1p(std::exp(smaller - larger));
                result.lse.push_back(std::isnan(x) || std::isnan(y) ? x + y : lse);
                const Real share_x = empty_y ? 1 : std::exp(x - lse), share_y = empty_x ? 1 : std::exp(y - lse);
                for (Index d = 0; d < out_a.extent[3]; d++) {
                    Real sum = 0;
                    if (!empty_x) sum += share_x * Real(element<T>(out_a, b, h, i, d));
                    if (!empty_y) sum += share_y * Real(element<T>(out_b, b, h, i, d));
                    result.out.push_back(sum);
                }
            }
    return result;
}

}  // namespace attune_test
