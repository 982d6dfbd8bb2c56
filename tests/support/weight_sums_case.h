// SPDX-License-Identifier: MIT
// Sums of weights by key of a batch over pages: the output as data, the reference, and its fault by the error rule.
#pragma once
#include "tests/reference/sdpa_reference.h"
#include "tests/support/error_rule.h"
#include "tests/support/paged_case.h"

namespace attune_test {

inline constexpr std::int64_t spare_keys = 5;  // of the output, behind the longest sequence

inline std::int64_t keys_of(const PagedCase &c, std::size_t s) {
    const std::int32_t prefix = c.prefix_of.empty() ? -1 : c.prefix_of[s];
    return c.rows[s] + (prefix < 0 ? 0 : c.prefix_rows[std::size_t(prefix)]);
}

// The output, (B, Hq, Sk), or (B, Hkv, Sk) where `of_groups`; padded.
template<typename Real> Array<Real> weight_sums_of(const PagedCase &c, bool of_groups) {
    std::int64_t most = 0;
    for (std::size_t s = 0; s < c.rows.size(); s++) most = std::max(most, keys_of(c, s));
    const std::int64_t heads = of_groups ? c.key_heads : c.query_heads, room = most + spare_keys;
    return Array<Real>({std::int64_t(c.rows.size()), heads, room}, {heads * (room + 2) + 3, room + 2, 1}, poison<Real>(2));
}

// Sums of weights (1, Hq, Sq, Sk) by key, (H, Sk), query by query and head by head.
template<typename Real>
std::vector<Real> sums_by_key(const std::vector<Real> &weights, const PagedCase &c, std::size_t s, std::int64_t sum_heads) {
    const std::int64_t keys = keys_of(c, s), queries = c.queries[s], group = c.query_heads / sum_heads;
    std::vector<Real> sums(std::size_t(sum_heads * keys), Real(0));
    for (std::int64_t h = 0; h < sum_heads; h++)
        for (std::int64_t i = 0; i < queries; i++)
            for (std::int64_t g = 0; g < group; g++)
                for (std::int64_t j = 0; j < keys; j++)
                    sums[std::size_t(h * keys + j)] += weights[std::size_t(((h * group + g) * queries + i) * keys + j)];
    return sums;
}

// Fault of the sums of all sequences; empty: none. `rows` has the keys as numbers, of its own type.
template<typename T, typename Number>
std::string weight_sums_defect(PagedArrays<T> &all, const PagedArrays<Number> &rows, const attune::PagedOptions &options,
                               Array<Sum<T>> &sums) {
    const attune::View v = sums.view();
    for (std::size_t s = 0; s < all.the.rows.size(); s++) {
        const auto name = "sequence " + std::to_string(s) + ": ";
        const std::int64_t queries = all.the.queries[s], keys = queries > 0 ? keys_of(all.the, s) : 0;
        std::vector<Sum<T>> got;
        for (std::int64_t h = 0; h < v.extent[1]; h++)
            for (std::int64_t j = 0; j < v.extent[2]; j++) {
                const Sum<T> sum = sums(std::int64_t(s), h, j);
                if (j < keys) got.push_back(sum);
                if (j >= keys && !same_bits(sum, Sum<T>(0))) return name + "not 0 behind its rows";
            }
        if (queries == 0) continue;
        const attune::ConstView q = sequence_of(all.query.view(), all.ends[s], queries);
        Array<Number> k = rows.rows_in_order(rows.key, std::int64_t(s)),
                      value = rows.rows_in_order(rows.value, std::int64_t(s));
        Array<T> bias;
        InOrder given = in_order(options, all, std::int64_t(s), keys, bias);
        given.options.weights = v;  // the reference asks whether it is given
        const auto of = [&](auto real) {
            using Real = decltype(real);
            return sums_by_key(sdpa_of_rows<Real, T>(rows_of<Real, T>(q), rows_of<Real, Number>(k.view()),
                                                     rows_of<Real, Number>(value.view()), given.options, 4)
                                   .weights,
                               all.the, s, v.extent[1]);
        };
        const Verdict verdict = judge(of(Reference<T>(0)), of(Sum<T>(0)), got);
        if (!verdict.right) return name + verdict.why;
    }
    return {};
}

}  // namespace attune_test
