// SPDX-License-Identifier: MIT
// Dropout (docs/conventions.md row 25): the random numbers, the weights that they keep, and how many.
#include "tests/reference/philox_reference.h"
#include "tests/support/environment.h"
#include "tests/support/refusals.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;
using attune::Dropout, attune::View;

namespace {
std::vector<bool> mask_by_reference(const Dropout &dropout, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                                    std::int64_t keys) {
    std::vector<bool> mask;
    for (std::int64_t b = 0; b < batch; b++)
        for (std::int64_t h = 0; h < heads; h++)
            for (std::int64_t i = 0; i < queries; i++)
                for (std::int64_t j = 0; j < keys; j++) mask.push_back(kept_by_dropout(dropout, heads, b, h, i, j));
    return mask;
}
std::vector<bool> mask_of(const Dropout &dropout, std::int64_t queries = 8, std::int64_t keys = 33, int threads = 2) {
    attune::Context context({.threads = threads});
    Array<bool> mask({2, 3, queries, keys});
    const auto status = attune::dropout_mask(context, dropout, mask.view());
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(mask.all_written());
    CHECK(mask.gaps_untouched());
    return mask.values();
}
constexpr std::uint64_t wide_seed = 0xfedcba9876543210ull;
}  // namespace

TEST_CASE("dropout: known answers of Philox4x32-10", "[dropout][semantics]") {
    // Known answers, kat_vectors of the Random123 distribution.
    using Words = std::array<std::uint32_t, 4>;
    constexpr std::uint32_t ones = 0xffffffffu;
    CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox4x32_10({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("dropout_mask: the definition, bit by bit", "[dropout][semantics]") {
    for (const Dropout &dropout : {Dropout{0.1, 0, 0},
                                   {0.5, wide_seed, 0},
                                   {0.5, wide_seed, 0xffffffffu},
                                   {0.999, 1, 7},
                                   {0.5, wide_seed, 1, 5, 4},
                                   {0.5, wide_seed, 1, 0, 1, 2, 9},
                                   {0.5, 3, 0, 0xfffffffdu, 6, 1, 3},
                                   {0.5, 3, 0, 11, 0xfffffff7u, 0xffffffffu, 100},
                                   {1e-10, 3, 0},
                                   {1 - 1e-10, 3, 0}})
        for (std::int64_t keys : {1, 3, 4, 33, 130}) {
            INFO("p " << dropout.probability << " seed " << dropout.seed << " offset " << dropout.offset << " keys " << keys);
            const auto expected = mask_by_reference(dropout, 2, 3, 8, keys);
            CHECK(mask_of(dropout, 8, keys, 1) == expected);
            CHECK(mask_of(dropout, 8, keys, 2) == expected);
        }
}

TEST_CASE("dropout_mask: every variant gives the same bits", "[dropout][per_variant]") {
    const Dropout dropout{0.3, wide_seed, 5};
    int ran = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        if (v.op != "dropout_mask" || !v.runs_here) continue;
        Environment force("ATTUNE_FORCE_VARIANT", std::string(v.name));
        INFO(v.name);
        for (std::int64_t queries : {1, 17})
            for (std::int64_t keys : {1, 31, 200})
                for (int threads : {1, 2})
                    CHECK(mask_of(dropout, queries, keys, threads) == mask_by_reference(dropout, 2, 3, queries, keys));
        ran++;
    }
    CHECK(ran > 0);
}

TEST_CASE("dropout_mask: a part of a larger mask", "[dropout][semantics]") {
    attune::Context context({.threads = 2});
    Array<bool> whole({3, 5, 20, 50});
    REQUIRE(attune::dropout_mask(context, {0.5, 7, 2}, whole.view()).ok());
    for (const std::int64_t key : {0, 1, 2, 3, 4, 17})
        for (const std::int64_t query : {0, 3}) {
            Array<bool> part({2, 3, 8, 33});
            const Dropout dropout{0.5, 7, 2, std::uint32_t(query), std::uint32_t(key), 5 + 1, 5};
            REQUIRE(attune::dropout_mask(context, dropout, part.view()).ok());
            bool same = true;
            for (std::int64_t b = 0; b < 2; b++)
                for (std::int64_t h = 0; h < 3; h++)
                    for (std::int64_t i = 0; i < 8; i++)
                        for (std::int64_t j = 0; j < 33; j++)
                            same = same && part(b, h, i, j) == whole(b + 1, h + 1, i + query, j + key);
            INFO("query " << query << " key " << key);
            CHECK(same);
        }
}

TEST_CASE("dropout_mask: probabilities 0 and 1", "[dropout][semantics]") {
    CHECK(mask_of({0, 1, 0}) == std::vector<bool>(2 * 3 * 8 * 33, true));
    CHECK(mask_of({1, 1, 0}) == std::vector<bool>(2 * 3 * 8 * 33, false));
}

TEST_CASE("dropout_mask: seed and offset change the mask, sizes do not", "[dropout][semantics]") {
    const auto mask = mask_of({0.5, 1, 0});
    CHECK(mask == mask_of({0.5, 1, 0}));
    CHECK(mask != mask_of({0.5, 2, 0}));
    CHECK(mask != mask_of({0.5, 1 + (std::uint64_t(1) << 32), 0}));
    CHECK(mask != mask_of({0.5, 1, 1}));
    // A longer row and more rows do not change the others.
    const auto longer = mask_of({0.5, 1, 0}, 9, 40);
    bool same = true;
    for (std::size_t head = 0; head < 6; head++)
        for (std::size_t i = 0; i < 8; i++)
            for (std::size_t j = 0; j < 33; j++)
                same = same && mask[(head * 8 + i) * 33 + j] == longer[(head * 9 + i) * 40 + j];
    CHECK(same);
}

TEST_CASE("dropout_mask: rank 3 is one head, strides are free, no elements are no error", "[dropout][semantics]") {
    attune::Context context({.threads = 2});
    const Dropout dropout{0.4, 9, 2};
    Array<bool> three({3, 5, 21}), strided({3, 2, 5, 21}, {1, 3, 600, 7});
    REQUIRE(attune::dropout_mask(context, dropout, three.view()).ok());
    CHECK(three.values() == mask_by_reference(dropout, 3, 1, 5, 21));
    const auto status = attune::dropout_mask(context, dropout, strided.view());
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(strided.values() == mask_by_reference(dropout, 3, 2, 5, 21));
    CHECK(strided.gaps_untouched());
    bool *const null = nullptr;
    CHECK(attune::dropout_mask(context, dropout, View(null, {0, 2, 5, 21})).ok());
    CHECK(attune::dropout_mask(context, dropout, View(null, {3, 2, 5, 0})).ok());
}

TEST_CASE("dropout: the kept fraction of ten million weights is within 5 sigma", "[dropout][semantics]") {
    attune::Context context;
    const std::int64_t batch = 5, heads = 8, queries = 500, keys = 500;
    const double count = double(batch * heads * queries * keys);
    Array<bool> mask({batch, heads, queries, keys});
    unsigned seed = 77;
    for (double p : {0.1, 0.5, 0.9, 0.001}) {
        const Dropout dropout{p, seed++, 3};
        INFO("p " << p << " seed " << dropout.seed);
        REQUIRE(attune::dropout_mask(context, dropout, mask.view()).ok());
        double kept = 0;
        std::vector<double> by_lane(4, 0);
        std::int64_t n = 0;
        mask.each([&](bool &x) { kept += x, by_lane[std::size_t(n++ % keys % 4)] += x; });
        CHECK(std::abs(kept - count * (1 - p)) <= 5 * std::sqrt(count * p * (1 - p)));
        for (double lane : by_lane) CHECK(std::abs(lane - count / 4 * (1 - p)) <= 5 * std::sqrt(count / 4 * p * (1 - p)));
    }
}

TEST_CASE("dropout: the dispatched call drops the mask of dropout_mask", "[sdpa][dropout][semantics]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 5, 90})
        for (const Dropout &dropout : {Dropout{0.2, 1, 0}, {0.2, 1, 1}, {0.8, wide_seed, 4}}) {
            SdpaCase c{.query_heads = 4, .key_heads = 2, .queries = queries, .keys = 200, .value_dim = 200, .dropout = dropout};
            check_case<float>(context, c);
            check_case<double>(context, c);
            SdpaArrays<float> a(c);
            a.value.each([](float &x) { x = 0; });
            for (std::int64_t b = 0; b < 2; b++)
                for (std::int64_t h = 0; h < 2; h++)
                    for (std::int64_t j = 0; j < 200; j++) a.value(b, h, j, j) = 1;
            REQUIRE(a.run(context).ok());
            std::vector<bool> kept;
            a.out.each([&](float &x) { kept.push_back(x != 0); });
            CHECK(kept == mask_by_reference(dropout, 2, 4, queries, 200));
        }
}

TEST_CASE("dropout: probability 0 has the bits of no dropout, 1 gives zeros", "[sdpa][dropout][semantics]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 90}) {
        SdpaCase c{.queries = queries, .keys = 200, .mask = "ij"};
        SdpaArrays<float> none(c), zero([&] {
            return c.dropout = {0, 5, 5}, c;
        }()),
            one([&] {
                return c.dropout = {1, 5, 5}, c;
            }());
        REQUIRE(none.run(context).ok());
        REQUIRE(zero.run(context).ok());
        REQUIRE(one.run(context).ok());
        CHECK(same_bits(none.out.values(), zero.out.values()));
        CHECK(same_bits(none.lse.values(), zero.lse.values()));
        CHECK(one.out.values() == std::vector<float>(one.out.values().size(), 0.f));
        CHECK(defect(one) == "");
    }
}

TEST_CASE("bad input: dropout_mask", "[dropout][bad_input]") {
    attune::Context context;
    Array<bool> mask({2, 3, 4, 5});
    const auto refused = [&](const std::string &argument, const std::vector<std::string> &parts, const Dropout &dropout,
                             const View &view) {
        const auto status = attune::dropout_mask(context, dropout, view);
        INFO(status.message());
        CHECK(status.code() == invalid);
        CHECK(message_defect(status.message(), argument, parts) == "");
        CHECK(mask.untouched());
    };
    const auto with = [&](auto f) {
        View view = mask.view();
        f(view);
        return view;
    };
    refused("dropout", {"1.5"}, {1.5, 0, 0}, mask.view());
    refused("dropout", {"-0.1"}, {-0.1, 0, 0}, mask.view());
    refused("dropout", {"nan"}, {std::nan(""), 0, 0}, mask.view());
    refused("dropout", {"heads", "3", "2"}, {0.5, 0, 0, 0, 0, 0, 2}, mask.view());
    refused("mask", {"2"}, {0.5, 0, 0}, with([](View &v) { v.rank = 2; }));
    refused("mask", {"f32", "bool"}, {0.5, 0, 0}, with([](View &v) { v.dtype = attune::DType::f32; }));
    refused("mask", {"null"}, {0.5, 0, 0}, with([](View &v) { v.data = nullptr; }));
    refused("mask", {"overlap"}, {0.5, 0, 0}, with([](View &v) { v.stride[1] = 0; }));
    refused("mask", {"-3"}, {0.5, 0, 0}, with([](View &v) { v.extent[1] = -3; }));
}
