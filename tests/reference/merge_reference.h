// SPDX-License-Identifier: MIT
// Reference of merge_attention: one row at a time, all in Real. Arguments are assumed to be legal.
#pragma once
#include "attune/merge.h"
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

// The reference of any number of parts.
template<typename Real, typename T> MergeResult<Real> merge_reference(const std::vector<attune::PartialAttention> &parts) {
    const Real infinity = std::numeric_limits<Real>::infinity();
    MergeResult<Real> result;
    const attune::ConstView &first = parts[0].out;
    for (Index b = 0; b < first.extent[0]; b++)
        for (Index h = 0; h < first.extent[1]; h++)
            for (Index i = 0; i < first.extent[2]; i++) {
                Real largest = -infinity, sum = 0;
                std::vector<std::pair<Real, const attune::ConstView *>> rows;  // of the parts with keys
                for (const attune::PartialAttention &part : parts) {
                    const attune::ConstView &v = part.lse;
                    const Real x = static_cast<const Sum<T> *>(v.data)[b * v.stride[0] + h * v.stride[1] + i * v.stride[2]];
                    if (x == -infinity) continue;
                    rows.emplace_back(x, &part.out);
                    largest = x > largest || std::isnan(x) ? x : largest;
                }
                for (const auto &[x, out] : rows) sum += std::exp(x - largest);
                result.lse.push_back(rows.size() == 1 ? rows[0].first : rows.empty() ? -infinity : largest + std::log(sum));
                for (Index d = 0; d < first.extent[3]; d++) {
                    Real merged = 0;
                    for (const auto &[x, out] : rows) {
                        const Real share = rows.size() == 1 ? 1 : std::exp(x - largest) / sum;
                        merged += share * Real(element<T>(*out, b, h, i, d));
                    }
                    result.out.push_back(merged);
                }
            }
    return result;
}

}  // namespace attune_test
