// SPDX-License-Identifier: MIT
// Elements of views for the references: any rank up to 4, read as (B, H, S, D), (B, S, D), (S, D) or (D).
#pragma once
#include "tests/support/half_elements.h"
#include <cstdint>
#include <vector>

namespace attune_test {

using Index = std::int64_t;

inline Index batches(const attune::ConstView &x) { return x.rank >= 3 ? x.extent[0] : 1; }
inline Index heads(const attune::ConstView &x) { return x.rank == 4 ? x.extent[1] : 1; }
inline Index rows(const attune::ConstView &x) { return x.rank >= 2 ? x.extent[x.rank - 2] : 1; }
inline Index channels(const attune::ConstView &x) { return x.extent[x.rank - 1]; }

template<typename T> const T *element_at(const attune::ConstView &x, Index b, Index h, Index i, Index d) {
    Index at = d * x.stride[x.rank - 1];
    if (x.rank >= 2) at += i * x.stride[x.rank - 2];
    if (x.rank >= 3) at += b * x.stride[0];
    if (x.rank == 4) at += h * x.stride[1];
    return static_cast<const T *>(x.data) + at;
}
template<typename T> T element(const attune::ConstView &x, Index b, Index h, Index i, Index d) {
    return *element_at<T>(x, b, h, i, d);
}

// Offset of element (b, h, i, j) in a view that broadcasts to (B, H, Sq, Sk), or to (B, Sq, Sk) or (Sq, Sk) where `rank` is 3
// or 2.
inline Index broadcast_offset(const attune::ConstView &x, int rank, Index b, Index h, Index i, Index j) {
    const Index all[4][4] = {{j}, {i, j}, {b, i, j}, {b, h, i, j}};
    Index at = 0;
    for (int n = 0; n < x.rank; n++)
        if (x.extent[n] != 1) at += all[rank - 1][rank - x.rank + n] * x.stride[n];
    return at;
}
template<typename T> T broadcast_element(const attune::ConstView &x, int rank, Index b, Index h, Index i, Index j) {
    return static_cast<const T *>(x.data)[broadcast_offset(x, rank, b, h, i, j)];
}

// All rows of an array (B, H, S, D), converted to the reference's type.
template<typename Real> struct DenseRows {
    Index batch, heads, count, width;
    std::vector<Real> data = std::vector<Real>(std::size_t(batch * heads * count * width), Real(0));

    Real *row(Index b, Index h, Index i) { return data.data() + ((b * heads + h) * count + i) * width; }
    const Real *row(Index b, Index h, Index i) const { return data.data() + ((b * heads + h) * count + i) * width; }
};
template<typename Real, typename T> DenseRows<Real> rows_of(const attune::ConstView &x) {
    DenseRows<Real> all{batches(x), heads(x), rows(x), channels(x)};
    for (Index b = 0; b < all.batch; b++)
        for (Index h = 0; h < all.heads; h++)
            for (Index i = 0; i < all.count; i++) {
                const T *from = element_at<T>(x, b, h, i, 0);
                const Index stride = x.stride[x.rank - 1];
                Real *to = all.row(b, h, i);
                for (Index d = 0; d < all.width; d++) to[d] = Real(from[d * stride]);
            }
    return all;
}

// The type in which the reference for elements of type T is computed.
template<typename T> using Reference = std::conditional_t<std::is_same_v<T, double>, long double, double>;

// x after a store to and a load from memory of type Stored.
template<typename Stored, typename Real> Real stored_as(Real x) { return Real(Stored(x)); }

}  // namespace attune_test
