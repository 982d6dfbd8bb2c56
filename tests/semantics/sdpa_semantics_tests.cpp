// SPDX-License-Identifier: MIT
// docs/conventions.md through the dispatcher: scale, layout of heads, lse, rank 3, empty arrays.
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::vector<float> random_floats(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> all(count);
    for (float &x : all) x = uniform(random);
    return all;
}
// Whether all elements are the expected number, to a part in a million.
bool all_near(const std::vector<float> &all, double expected) {
    return std::all_of(all.begin(), all.end(), [&](float x) { return std::abs(x - expected) <= 1e-6 * std::abs(expected); });
}
}  // namespace

TEST_CASE("sdpa: the default scale is one over the root of the query's head size", "[sdpa][semantics]") {
    attune::Context context;
    for (std::int64_t head_dim : {1, 2, 10, 64, 80}) {
        SdpaCase given{.head_dim = head_dim, .value_dim = 64}, implied = given;
        given.scale = 1 / std::sqrt(double(head_dim));
        SdpaArrays<float> a(given), b(implied);
        CHECK(a.run(context).ok());
        CHECK(b.run(context).ok());
        CHECK(same_bits(a.out.values(), b.out.values()));
        CHECK(same_bits(a.lse.values(), b.lse.values()));
        CHECK(defect(b) == "");
    }
}

TEST_CASE("sdpa: scale 0 gives the mean of the values", "[sdpa][semantics]") {
    attune::Context context;
    SdpaArrays<double> a({.queries = 3, .keys = 100, .scale = 0.0});
    int n = 0;
    a.value.each([&](double &x) { x = n++ / 64 % 100; });
    CHECK(a.run(context).ok());
    a.out.each([](double &x) { x -= 49.5; });
    for (double x : a.out.values()) CHECK(std::abs(x) < 1e-13);
    for (double x : a.lse.values()) CHECK(std::abs(x - std::log(100.0)) < 1e-14);
}

TEST_CASE("sdpa: query heads take the key head of their group, in order", "[sdpa][semantics]") {
    attune::Context context;
    for (const auto &[query_heads, key_heads] : {std::pair(1, 1), {4, 4}, {4, 2}, {6, 3}, {6, 2}, {9, 3}, {8, 1}, {32, 8}})
        for (std::int64_t queries : {1, 5, 40})
            for (std::int64_t keys : {3, 130}) {
                SdpaCase c{.query_heads = query_heads, .key_heads = key_heads, .queries = queries, .keys = keys};
                SdpaArrays<float> a(c);
                // The values of a head are a constant that identifies it.
                for (std::int64_t b = 0; b < c.batch; b++)
                    for (std::int64_t h = 0; h < key_heads; h++)
                        for (std::int64_t j = 0; j < keys; j++)
                            for (std::int64_t d = 0; d < c.value_dim; d++) a.value(b, h, j, d) = float(1 + h + 100 * b);
                CHECK(a.run(context).ok());
                bool right = true;
                for (std::int64_t b = 0; b < c.batch; b++)
                    for (std::int64_t h = 0; h < query_heads; h++)
                        for (std::int64_t i = 0; i < queries; i++) {
                            const float expected = float(1 + h * key_heads / query_heads + 100 * b);
                            right = right && std::abs(a.out(b, h, i, 5) - expected) < 1e-5f * expected;
                        }
                INFO(describe(c));
                CHECK(right);
            }
}

TEST_CASE("sdpa: lse is the natural logarithm of the sum, with the scale", "[sdpa][semantics]") {
    attune::Context context;
    // Equal keys: every score is scale * 3 * 4, so lse = 12 scale + ln(keys).
    for (double scale : {0.25, 1.0, -2.0})
        for (std::int64_t keys : {1, 2, 1000}) {
            const std::vector<float> query(4, 3.f), key(std::size_t(keys * 4), 1.f), value(std::size_t(keys), 1.f);
            float out = 0, lse = 0;
            const auto status = attune::scaled_dot_product_attention(
                context, ConstView(query.data(), {1, 1, 1, 4}), ConstView(key.data(), {1, 1, keys, 4}),
                ConstView(value.data(), {1, 1, keys, 1}), View(&out, {1, 1, 1, 1}),
                {.scale = scale, .lse = View(&lse, {1, 1, 1})});
            INFO(status.message());
            CHECK(status.ok());
            CHECK(all_near({lse}, 12 * scale + std::log(double(keys))));
            CHECK(all_near({out}, 1));
        }
}

TEST_CASE("sdpa: lse is optional, and its strides are free", "[sdpa][semantics]") {
    attune::Context context;
    for (std::int64_t queries : {1, 70}) {
        SdpaCase c{.query_heads = 4, .queries = queries, .keys = 90};
        SdpaArrays<float> dense(c), without(c);
        c.strided_lse = true;
        SdpaArrays<float> strided(c);
        CHECK(dense.run(context).ok());
        CHECK(strided.run(context).ok());
        CHECK(defect(strided) == "");
        CHECK(same_bits(dense.lse.values(), strided.lse.values()));
        auto options = without.options({});
        options.lse = {};
        CHECK(attune::scaled_dot_product_attention(context, without.query.view(), without.key.view(), without.value.view(),
                                                   without.out.view(), options)
                  .ok());
        CHECK(without.lse.untouched());
        CHECK(same_bits(dense.out.values(), without.out.values()));
    }
}

TEST_CASE("sdpa: arrays of rank 3 are one head", "[sdpa][semantics]") {
    attune::Context context;
    const std::int64_t batch = 3, queries = 7, keys = 11, head_dim = 24, value_dim = 10;
    const auto query = random_floats(std::size_t(batch * queries * head_dim), 1),
               key = random_floats(std::size_t(batch * keys * head_dim), 2),
               value = random_floats(std::size_t(batch * keys * value_dim), 3);
    std::vector<float> out3(std::size_t(batch * queries * value_dim)), out4 = out3, lse3(std::size_t(batch * queries)),
                                                                       lse4 = lse3;
    const std::int32_t lens[] = {11, 0, 4};
    attune::SdpaOptions options{.causal = attune::Causal::bottom_right, .valid_lens = ConstView(lens, {batch})};
    options.lse = View(lse3.data(), {batch, queries});
    CHECK(attune::scaled_dot_product_attention(
              context, ConstView(query.data(), {batch, queries, head_dim}), ConstView(key.data(), {batch, keys, head_dim}),
              ConstView(value.data(), {batch, keys, value_dim}), View(out3.data(), {batch, queries, value_dim}), options)
              .ok());
    options.lse = View(lse4.data(), {batch, 1, queries});
    CHECK(attune::scaled_dot_product_attention(context, ConstView(query.data(), {batch, 1, queries, head_dim}),
                                               ConstView(key.data(), {batch, 1, keys, head_dim}),
                                               ConstView(value.data(), {batch, 1, keys, value_dim}),
                                               View(out4.data(), {batch, 1, queries, value_dim}), options)
              .ok());
    CHECK(same_bits(out3, out4));
    CHECK(same_bits(lse3, lse4));
    CHECK(lse3[std::size_t(queries)] == minus_infinity);
}

TEST_CASE("sdpa: no keys give 0 and minus infinity", "[sdpa][semantics]") {
    attune::Context context;
    for (Layout layout : {Layout::dense, Layout::bshd, Layout::padded, Layout::reversed}) {
        SdpaCase c{.keys = 0, .causal = attune::Causal::bottom_right, .out_layout = layout, .strided_lse = true};
        SdpaArrays<float> a(c);
        CHECK(a.run(context).ok());
        for (float x : a.out.values()) CHECK(x == 0);
        for (float x : a.lse.values()) CHECK(x == minus_infinity);
        CHECK(a.out.gaps_untouched());
        CHECK(a.lse.gaps_untouched());
        CHECK(context.last_variant().empty());
    }
    SdpaArrays<double> wide({.keys = 0});
    CHECK(wide.run(context).ok());
    CHECK(wide.lse(1, 1, 4) == -std::numeric_limits<double>::infinity());
}

TEST_CASE("sdpa: no batch, no heads or no queries write nothing", "[sdpa][semantics]") {
    attune::Context context;
    const auto legal = [&](const SdpaCase &c) {
        SdpaArrays<float> a(c);
        const auto status = a.run(context);
        INFO(describe(c) << ' ' << status.message());
        CHECK(status.ok());
        CHECK(a.out.untouched());
        CHECK(a.lse.untouched());
        CHECK(context.last_variant().empty());
    };
    legal({.batch = 0});
    legal({.queries = 0});
    legal({.query_heads = 0});
    legal({.query_heads = 0, .key_heads = 0});
    legal({.batch = 0, .query_heads = 0, .key_heads = 0, .queries = 0, .keys = 0});
}

TEST_CASE("sdpa: arrays without elements may be null", "[sdpa][semantics]") {
    attune::Context context;
    float *const null = nullptr;
    const std::vector<float> query(2 * 3 * 4, 1.f);
    std::vector<float> out(2 * 3 * 5, 7.f);
    CHECK(attune::scaled_dot_product_attention(context, ConstView(query.data(), {2, 1, 3, 4}), ConstView(null, {2, 1, 0, 4}),
                                               ConstView(null, {2, 1, 0, 5}), View(out.data(), {2, 1, 3, 5}))
              .ok());
    CHECK(out == std::vector<float>(30, 0.f));
    CHECK(attune::scaled_dot_product_attention(context, ConstView(null, {0, 1, 3, 4}), ConstView(null, {0, 1, 8, 4}),
                                               ConstView(null, {0, 1, 8, 5}), View(null, {0, 1, 3, 5}))
              .ok());
}
