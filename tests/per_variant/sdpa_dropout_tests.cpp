// SPDX-License-Identifier: MIT
// Dropout (docs/conventions.md row 25) in every variant that computes it: each has the mask of Philox.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;
using attune::Causal;

namespace {
template<typename F> void for_each_dropped(const attune::VariantInfo &v, const F &f) {
    for_each_small_case(v, 4000, {37, 2}, f);
}

// The mask, read from the output: scores are equal and the values are an identity, so that out holds the dropped weights.
template<typename T> std::vector<bool> mask_of(attune::Context &context, SdpaArrays<T> &a, std::string_view variant) {
    a.query.each([](T &x) { x = 0; });
    a.value.each([](T &x) { x = 0; });
    for (std::int64_t b = 0; b < a.the.batch; b++)
        for (std::int64_t h = 0; h < a.the.key_heads; h++)
            for (std::int64_t j = 0; j < a.the.keys; j++) a.value(b, h, j, j) = 1;
    const auto status = a.run(context, variant);
    INFO(status.message());
    CHECK(status.ok());
    const T weight = T(1 / (double(a.the.keys) * (1 - a.the.dropout.probability)));
    std::vector<bool> mask;
    std::int64_t strange = 0;
    const double close = std::max(1e-5, double(std::numeric_limits<T>::epsilon()));
    a.out.each([&](T &x) { mask.push_back(x != 0), strange += x != 0 && !(std::abs(x / weight - 1) < close); });
    CHECK(strange == 0);
    return mask;
}
}  // namespace

TEST_CASE("variants: dropout agrees with the reference", "[sdpa][dropout][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", knows_dropout, [&](const attune::VariantInfo &v, auto zero) {
        for_each_dropped(v, [&](SdpaCase c) {
            for (const attune::Dropout &dropout : {attune::Dropout{0.1, 1, 0},
                                                   {0.5, 0xfedcba9876543210ull, 3},
                                                   {0.9, 2, 0xffffffffu},
                                                   {1e-12, 3, 0},
                                                   {1, 4, 0},
                                                   {0.3, 5, 1, 7, 4, 3, 1000},
                                                   {0.4, 6, 1, 2, 3, 1, 500}})
                for (bool everything : {false, true}) {
                    c.dropout = dropout;
                    SdpaCase one = c;
                    if (everything) {
                        one.softcap = 5, one.bias = "ij", one.mask = "b1ij", one.alibi = Alibi::standard, one.sinks = true;
                        one.causal = Causal::bottom_right, one.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)};
                    }
                    check_case<decltype(zero)>(context, one, v.name);
                }
        });
    });
}

TEST_CASE("variants: the mask of dropout is bit by bit that of dropout_mask, on 1 and 2 threads",
          "[sdpa][dropout][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2});
    for_each_variant("sdpa", knows_dropout, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const std::int64_t d = v.head_dim ? v.head_dim : 150;
        for (const attune::Dropout &dropout :
             {attune::Dropout{0.1, 1, 0}, {0.7, 0xfedcba9876543210ull, 9}, {0.5, 3, 0, 5, 2, 1, 7}})
            for (std::int64_t queries : {1, 4, 70}) {
                SdpaCase c{.batch = 3,
                           .query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = d,
                           .head_dim = d,
                           .value_dim = d,
                           .dropout = dropout};
                INFO(describe(c));
                Array<bool> mask({c.batch, c.query_heads, c.queries, c.keys});
                const auto status = attune::dropout_mask(two, dropout, mask.view());
                INFO(status.message());
                REQUIRE(status.ok());
                SdpaArrays<T> alone(c), shared(c);
                CHECK(mask_of(one, alone, v.name) == mask.values());
                CHECK(mask_of(two, shared, v.name) == mask.values());
                CHECK(same_bits(alone.out.values(), shared.out.values()));
            }
    });
}

TEST_CASE("variants: dropout of probability 0 changes no bit, and of 1 gives zeros", "[sdpa][dropout][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", any_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        for_each_dropped(v, [&](SdpaCase c) {
            SdpaArrays<T> none(c);
            CHECK(none.run(context, v.name).ok());
            c.dropout = {0, 12345, 6};
            SdpaArrays<T> zero_probability(c);
            const auto status = zero_probability.run(context, v.name);
            INFO(describe(c) << ' ' << status.message());
            CHECK(status.ok());
            CHECK(same_bits(none.out.values(), zero_probability.out.values()));
            CHECK(same_bits(none.lse.values(), zero_probability.lse.values()));
            if (v.kind != "training") return;
            c.dropout.probability = 1;
            SdpaArrays<T> certain(c);
            CHECK(certain.run(context, v.name).ok());
            bool zeros = true;
            certain.out.each([&](T &x) { zeros = zeros && x == 0; });
            CHECK(zeros);
            CHECK(same_bits(none.lse.values(), certain.lse.values()));
        });
    });
}
