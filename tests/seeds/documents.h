// SPDX-License-Identifier: MIT
// Common parts of the tests of the documents: comparison with printed numbers, and calls on plain vectors.
#pragma once
#include "tests/support/sdpa_arrays.h"

namespace attune_test {

inline bool close_to(const std::vector<float> &got, const std::vector<double> &expected, double tolerance = 1e-6) {
    if (got.size() != expected.size()) return false;
    for (std::size_t n = 0; n < got.size(); n++)
        if (!(std::abs(got[n] - expected[n]) <= tolerance * std::max(1.0, std::abs(expected[n])))) return false;
    return true;
}

inline std::vector<float> normal_floats(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> all(count);
    for (float &x : all) x = normal(random);
    return all;
}

// Output and weights of one head: query (rows, d) on key (keys, d) and value (keys, v).
struct Attended {
    std::vector<float> out, weights;
};
inline Attended attend(const std::vector<float> &query, const std::vector<float> &key, const std::vector<float> &value,
                       std::int64_t rows, std::int64_t keys, attune::SdpaOptions options = {}) {
    const std::int64_t d = std::int64_t(query.size()) / rows, v = std::int64_t(value.size()) / keys;
    Attended all{std::vector<float>(std::size_t(rows * v), -1.f), std::vector<float>(std::size_t(rows * keys), -1.f)};
    options.weights = attune::View(all.weights.data(), {rows, keys});
    attune::Context context;
    const auto status = attune::scaled_dot_product_attention(
        context, attune::ConstView(query.data(), {rows, d}), attune::ConstView(key.data(), {keys, d}),
        attune::ConstView(value.data(), {keys, v}), attune::View(all.out.data(), {rows, v}), options);
    INFO(status.message());
    REQUIRE(status.ok());
    return all;
}

}  // namespace attune_test
