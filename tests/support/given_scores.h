// SPDX-License-Identifier: MIT
// Cases with given scores: far from 0, up to the ends of the range (docs/conventions.md row 52).
#pragma once
#include "tests/support/sdpa_arrays.h"
#include <cmath>
#include <functional>

namespace attune_test {

// One query head whose score of key j is score(j), at scale 1; channel c of its value is 1 where class_of(j) is c, else 0. So
// channel c of the output is the weight of class c.
struct GivenScores {
    std::int64_t queries, keys;
    std::function<double(std::int64_t j)> score;
    std::function<std::int64_t(std::int64_t j)> class_of;
};
inline constexpr std::int64_t classes = 3;

inline SdpaCase case_of(const GivenScores &given, std::int64_t head_dim, std::int64_t value_dim) {
    return {.batch = 1,
            .query_heads = 1,
            .key_heads = 1,
            .queries = given.queries,
            .keys = given.keys,
            .head_dim = head_dim,
            .value_dim = value_dim,
            .scale = 1.0};
}

// Fills arrays of such a case. Queries are the last unit vector, and the last channel of a key is its score: an infinite one
// stands beside what fills up the channels in a kernel.
template<typename T> void fill(SdpaArrays<T> &a, const GivenScores &given) {
    const std::int64_t last = a.the.head_dim - 1;
    for (std::int64_t i = 0; i < given.queries; i++)
        for (std::int64_t d = 0; d < a.the.head_dim; d++) a.query(0, 0, i, d) = T(d == last);
    for (std::int64_t j = 0; j < given.keys; j++) {
        for (std::int64_t d = 0; d < a.the.head_dim; d++) a.key(0, 0, j, d) = T(d == last ? given.score(j) : 0.);
        for (std::int64_t d = 0; d < a.the.value_dim; d++) a.value(0, 0, j, d) = T(d == given.class_of(j));
    }
}

// Largest differences of a call's outputs from the softmax of its stored scores: of a class's weight, and of lse in units of
// its rounding.
template<typename T> struct Differences {
    double weight = 0, lse = 0;

    Differences(SdpaArrays<T> &a, const GivenScores &given) {
        long double most = -std::numeric_limits<long double>::infinity(), sum = 0, expected[classes] = {};
        const auto score = [&](std::int64_t j) { return static_cast<long double>(Sum<T>(a.key(0, 0, j, a.the.head_dim - 1))); };
        for (std::int64_t j = 0; j < given.keys; j++) most = std::max(most, score(j));
        for (std::int64_t j = 0; j < given.keys; j++) {
            const long double weight = std::exp(score(j) - most);
            sum += weight;
            if (given.class_of(j) < classes) expected[given.class_of(j)] += weight;
        }
        for (std::int64_t i = 0; i < given.queries; i++) {
            for (std::int64_t c = 0; c < classes; c++) {
                long double got = a.the.weights ? 0 : static_cast<long double>(Sum<T>(a.out(0, 0, i, c)));
                for (std::int64_t j = 0; a.the.weights && j < given.keys; j++)
                    if (given.class_of(j) == c) got += static_cast<long double>(Sum<T>(a.weights(0, 0, i, j)));
                add(weight, std::abs(got - expected[c] / sum));
            }
            const long double expected_lse = most + std::log(sum);
            const auto unit = static_cast<long double>(std::numeric_limits<Sum<T>>::epsilon());
            add(lse, std::abs(a.lse(0, 0, i) - expected_lse) / std::max(unit * std::abs(expected_lse), unit * 8));
        }
    }
    static void add(double &most, long double x) { most = std::isnan(x) || x > most ? double(x) : most; }
};

template<typename T> constexpr double weight_tolerance() {
    if (is_half<T>) return double(std::numeric_limits<T>::epsilon());
    return sizeof(T) == 4 ? 2e-6 : 1e-13;
}

template<typename T> std::vector<double> bases() {
    if (std::is_same_v<T, float>) return {0, 5003, 130002, 3000005, 16000011, -130002, -3000005};
    if (std::is_same_v<T, double>) return {0, 5003, 7e9, 4.1e13, 3e15, -7e9};
    return std::is_same_v<T, Float16> ? std::vector<double>{0, 1003, 2040, -1003} : std::vector<double>{0, 131, 250, -131};
}

// A score near the end of the range that is not masked, further from 0 than half of the range.
template<typename T> double far() { return std::is_same_v<T, double> ? 9.3e307 : 2.8e38; }

// Checks a call, a.run(context, variant), on arrays of the given scores.
template<typename T, typename Arrays>
void check_given_scores(attune::Context &context, Arrays &a, const GivenScores &given, std::string_view variant) {
    INFO(describe(a.the) << ", the first scores " << given.score(0) << ", " << given.score(1));
    const attune::Status status = a.run(context, variant);
    INFO(status.message());
    REQUIRE(status.ok());
    const Differences<T> found(a, given);
    CHECK(found.weight <= weight_tolerance<T>());
    CHECK(found.lse <= 2);
}

}  // namespace attune_test
