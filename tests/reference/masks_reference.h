// SPDX-License-Identifier: MIT
// Reference of masks, and of the terms added to scores. Arguments are assumed to be legal.
#pragma once
#include "attune/sdpa.h"
#include "tests/reference/elements.h"
#include <cmath>
#include <cstdlib>

namespace attune_test {

// Position of query 0 among the keys where the caller gives one, else `otherwise`.
inline Index offset_of(const attune::SdpaOptions &o, Index b, Index otherwise) {
    if (o.offset) return *o.offset;
    for (const attune::ConstView *given : {&o.offsets, &o.cache_lens})
        if (given->given()) return static_cast<const std::int32_t *>(given->data)[b * given->stride[0]];
    return otherwise;
}

// Whether the structural masks (causal, window, lengths) let key j take part for query i of batch entry b.
inline bool takes_part(const attune::SdpaOptions &o, Index b, Index i, Index j, Index queries, Index keys) {
    const Index position = i + offset_of(o, b, o.causal == attune::Causal::bottom_right ? keys - queries : 0);
    if (o.causal != attune::Causal::none && j > position) return false;
    if (o.window.left >= 0 && j < position - o.window.left) return false;
    if (o.window.right >= 0 && j > position + o.window.right) return false;
    if (o.cache_lens.given() && j >= offset_of(o, b, 0) + queries) return false;
    if (!o.valid_lens.given()) return true;
    const Index at = b * o.valid_lens.stride[0] + (o.valid_lens.rank == 2 ? i * o.valid_lens.stride[1] : 0);
    return j < static_cast<const std::int32_t *>(o.valid_lens.data)[at];
}

// The least score that counts: lower ones and -inf mask, in a bias as in the whole score.
template<typename T> constexpr Sum<T> lowest_score() { return Sum<T>(sizeof(Sum<T>) == 4 ? -3e38 : -1e308); }

// Whether the array masks, the boolean mask and the bias, let key j take part; `rank` is that of the query.
template<typename T> bool let_through(const attune::SdpaOptions &o, int rank, Index b, Index h, Index i, Index j) {
    if (o.mask.given() && !broadcast_element<bool>(o.mask, rank, b, h, i, j)) return false;
    return !o.bias.given() || !(Sum<T>(broadcast_element<T>(o.bias, rank, b, h, i, j)) < lowest_score<T>());
}

// Slope of ALiBi for head h of `heads`.
template<typename Real> Real slope_of(const attune::SdpaOptions &o, Index heads, Index b, Index h) {
    const attune::ConstView &s = o.alibi_slopes;
    if (s.given()) return static_cast<const float *>(s.data)[s.rank == 2 ? b * s.stride[0] + h * s.stride[1] : h * s.stride[0]];
    Index n = 1;  // the largest power of two up to heads
    while (2 * n <= heads) n *= 2;
    return float(h < n ? std::exp2(-8.0 * double(h + 1) / double(n)) : std::exp2(-4.0 * double(2 * (h - n) + 1) / double(n)));
}

// Distance of ALiBi between query i and key j.
inline Index alibi_distance(const attune::SdpaOptions &o, Index b, Index i, Index j, Index queries, Index keys) {
    return std::abs(i + offset_of(o, b, o.causal == attune::Causal::top_left ? 0 : keys - queries) - j);
}

// Sum of bias and ALiBi for the score of a key.
template<typename Real, typename T>
Real added_to_score(const attune::SdpaOptions &o, int rank, Index heads, Index b, Index h, Index i, Index j, Index queries,
                    Index keys) {
    Real sum = o.bias.given() ? Real(broadcast_element<T>(o.bias, rank, b, h, i, j)) : Real(0);
    if (o.alibi || o.alibi_slopes.given())
        sum -= slope_of<Real>(o, heads, b, h) * Real(alibi_distance(o, b, i, j, queries, keys));
    return sum;
}

}  // namespace attune_test
