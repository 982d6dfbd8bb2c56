// The definition of scaled_dot_product_attention: textbook loops, one query at a time, everything computed in Real.
// In a wider type than the elements it is the reference; in the type of the elements it is the plain computation that the
// error rule (tests/support/error_rule.h) compares with. No tile, no chunk, no base 2. Arguments are taken as legal.
#pragma once
#include "attune/sdpa.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace attune_test {

using Index = std::int64_t;

// Element (b, h, i, d) of a (B, H, S, D) view, or of a (B, S, D) one, which has one head.
template<typename T> T element(const attune::ConstView &x, Index b, Index h, Index i, Index d) {
    const Index *s = x.stride;
    return static_cast<const T *>(
        x.data)[x.rank == 4 ? b * s[0] + h * s[1] + i * s[2] + d * s[3] : b * s[0] + i * s[1] + d * s[2]];
}
inline Index heads(const attune::ConstView &x) { return x.rank == 4 ? x.extent[1] : 1; }
inline Index rows(const attune::ConstView &x) { return x.extent[x.rank - 2]; }
inline Index channels(const attune::ConstView &x) { return x.extent[x.rank - 1]; }

// Position of query 0 among the keys.
inline Index offset_of(const attune::SdpaOptions &o, Index b, Index queries, Index keys) {
    if (o.offset) return *o.offset;
    if (o.offsets.given()) return static_cast<const std::int32_t *>(o.offsets.data)[b * o.offsets.stride[0]];
    return o.causal == attune::Causal::bottom_right ? keys - queries : 0;
}

// Whether key j takes part for query i of batch entry b: every mask that is given must let it.
inline bool takes_part(const attune::SdpaOptions &o, Index b, Index i, Index j, Index queries, Index keys) {
    const Index position = i + offset_of(o, b, queries, keys);
    if (o.causal != attune::Causal::none && j > position) return false;
    if (o.window.left >= 0 && j < position - o.window.left) return false;
    if (o.window.right >= 0 && j > position + o.window.right) return false;
    if (!o.valid_lens.given()) return true;
    const Index at = b * o.valid_lens.stride[0] + (o.valid_lens.rank == 2 ? i * o.valid_lens.stride[1] : 0);
    return j < static_cast<const std::int32_t *>(o.valid_lens.data)[at];
}

template<typename Real> struct SdpaResult {
    std::vector<Real> out;  // (B, Hq, Sq, Dv)
    std::vector<Real> lse;  // (B, Hq, Sq)
};

template<typename Real, typename T>
SdpaResult<Real> sdpa_reference(const attune::ConstView &query, const attune::ConstView &key, const attune::ConstView &value,
                                const attune::SdpaOptions &options) {
    const Index queries = rows(query), keys = rows(key), head_dim = channels(query), value_dim = channels(value);
    const Real infinity = std::numeric_limits<Real>::infinity();
    const Real scale = options.scale ? Real(*options.scale) : 1 / std::sqrt(Real(head_dim));
    SdpaResult<Real> result;
    for (Index b = 0; b < query.extent[0]; b++)
        for (Index h = 0; h < heads(query); h++)
            for (Index i = 0; i < queries; i++) {
                const Index key_head = h * heads(key) / heads(query);
                std::vector<Index> kept;
                std::vector<Real> weight;  // scores at first
                for (Index j = 0; j < keys; j++) {
                    if (!takes_part(options, b, i, j, queries, keys)) continue;
                    Real dot = 0;
                    for (Index d = 0; d < head_dim; d++)
                        dot += Real(element<T>(query, b, h, i, d)) * Real(element<T>(key, b, key_head, j, d));
                    kept.push_back(j), weight.push_back(scale * dot);
                }
                Real largest = -infinity, sum = 0;
                for (Real score : weight) largest = std::max(largest, score);
                for (Real &w : weight) sum += w = std::exp(w - largest);
                std::vector<Real> mixed(value_dim, 0);
                for (std::size_t n = 0; n < kept.size(); n++)
                    for (Index d = 0; d < value_dim; d++)
                        mixed[d] += weight[n] * Real(element<T>(value, b, key_head, kept[n], d));
                for (Real m : mixed) result.out.push_back(kept.empty() ? 0 : m / sum);
                result.lse.push_back(kept.empty() ? -infinity : largest + std::log(sum));
            }
    return result;
}

// The type that the reference for elements of type T is computed in.
template<typename T> struct ReferenceType;
template<> struct ReferenceType<float> { using type = double; };
template<> struct ReferenceType<double> { using type = long double; };
template<typename T> using Reference = typename ReferenceType<T>::type;

}  // namespace attune_test
