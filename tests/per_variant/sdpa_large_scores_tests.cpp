// SPDX-License-Identifier: MIT
// Scores far from 0, up to the ends of the range (docs/conventions.md row 52), and sinks that are NaN, in every variant.
#include "tests/support/given_scores.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {

template<typename T> SdpaArrays<T> arrays_of(const attune::VariantInfo &v, const GivenScores &given) {
    const auto [head_dim, value_dim] = head_size(v);
    SdpaCase c = case_of(given, head_dim, value_dim);
    if (v.kind == "weights") c.weights = attune::WeightsMode::probabilities;
    SdpaArrays<T> a(c);
    fill(a, given);
    return a;
}

template<typename T> void check_scores(attune::Context &context, const attune::VariantInfo &v, const GivenScores &given) {
    auto a = arrays_of<T>(v, given);
    check_given_scores<T>(context, a, given, v.name);
}

const std::vector<std::string_view> every_kind = {"plain", "scored", "training", "weights"};

// Calls f for few queries and many, with keys that fill a KV block and its neighbours.
template<typename F> void for_each_size(const attune::VariantInfo &v, const F &f) {
    for (const auto &[queries, keys] : {std::pair<std::int64_t, std::int64_t>(1, 96), {tile_of(v) + 1, 2 * kv_block_of(v) + 7}})
        f(queries, keys);
}

}  // namespace

TEST_CASE("variants: scores far from 0 weigh as their differences say", "[sdpa][per_variant][large_scores]") {
    attune::Context context({.threads = 1});
    for_each_variant("sdpa", every_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        for_each_size(v, [&](std::int64_t queries, std::int64_t keys) {
            for (const double base : bases<T>()) {
                const auto third = [](std::int64_t j) { return j % 3; };
                check_scores<T>(context, v, {queries, keys, [=](std::int64_t j) { return base + double(third(j)); }, third});
                // KV blocks with different maxima.
                const auto of_block = [&](std::int64_t j) { return j / kv_block_of(v) % 3; };
                check_scores<T>(context, v,
                                {queries, keys, [=](std::int64_t j) { return base + double(of_block(j)); }, of_block});
            }
        });
    });
}

TEST_CASE("variants: every score of the range counts", "[sdpa][per_variant][large_scores]") {
    attune::Context context({.threads = 1});
    for_each_variant("sdpa", every_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        if (std::is_same_v<T, Float16>) return;
        const auto third = [](std::int64_t j) { return j % 3; };
        for_each_size(v, [&](std::int64_t queries, std::int64_t keys) {
            for (const auto &[first, second, last] : {std::tuple(far<T>(), far<T>(), 0.),
                                                      {-far<T>(), -far<T>(), -far<T>()},
                                                      {-far<T>(), 0., -far<T>() / 2},
                                                      {far<T>(), -far<T>(), far<T>()}}) {
                const double of_third[] = {first, second, last};
                check_scores<T>(context, v, {queries, keys, [&](std::int64_t j) { return of_third[third(j)]; }, third});
            }
            // -inf masks.
            const double infinity = std::numeric_limits<double>::infinity();
            check_scores<T>(context, v,
                            {queries, keys, [&](std::int64_t j) { return third(j) ? -far<T>() : -infinity; }, third});
        });
    });
}

TEST_CASE("variants: lse of 16 bits has the accuracy of f32", "[sdpa][per_variant][large_scores]") {
    attune::Context context({.threads = 1});
    for_each_variant("sdpa", any_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        for (const double below : {-0.31640625, -0.46875, -0.1015625})
            for (const std::int64_t queries : {std::int64_t(1), std::int64_t(tile_of(v)), std::int64_t(100)}) {
                constexpr std::int64_t keys = 1501;
                auto a = arrays_of<T>(
                    v, {queries, keys, [=](std::int64_t j) { return j == 77 ? 0. : below; }, [](std::int64_t) { return 0; }});
                REQUIRE(a.run(context, v.name).ok());
                const double expected = std::log(1 + double(keys - 1) * std::exp(below));
                double most = 0;
                for (std::int64_t i = 0; i < queries; i++) most = std::max(most, std::abs(double(a.lse(0, 0, i)) - expected));
                INFO(describe(a.the) << ", scores of " << below);
                CHECK(most <= 5e-6);
            }
    });
}

TEST_CASE("variants: a sink that is NaN makes its head NaN and no other", "[sdpa][per_variant][large_scores]") {
    attune::Context context({.threads = 2});
    for_each_variant("sdpa", {"scored", "training", "weights"}, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        for_each_size(v, [&](std::int64_t queries, std::int64_t keys) {
            SdpaCase c{.query_heads = 4,
                       .key_heads = 2,
                       .queries = queries,
                       .keys = keys,
                       .head_dim = head_dim,
                       .value_dim = value_dim,
                       .sinks = true};
            if (v.kind == "weights") c.weights = attune::WeightsMode::probabilities;
            SdpaArrays<T> a(c), clean(c);
            a.sinks.data()[2] = std::numeric_limits<float>::quiet_NaN();
            REQUIRE(a.run(context, v.name).ok());
            REQUIRE(clean.run(context, v.name).ok());
            std::int64_t wrong = 0;
            for (std::int64_t b = 0; b < c.batch; b++)
                for (std::int64_t h = 0; h < 4; h++)
                    for (std::int64_t i = 0; i < queries; i++) {
                        const auto differs = [&](auto is, auto was) { return h == 2 ? !std::isnan(is) : !same_bits(is, was); };
                        wrong += differs(a.lse(b, h, i), clean.lse(b, h, i));
                        for (std::int64_t d = 0; d < value_dim; d++) wrong += differs(a.out(b, h, i, d), clean.out(b, h, i, d));
                        for (std::int64_t j = 0; c.weights && j < keys; j++)
                            wrong += differs(a.weights(b, h, i, j), clean.weights(b, h, i, j));
                    }
            INFO(describe(c));
            CHECK(wrong == 0);
        });
    });
}
