// SPDX-License-Identifier: MIT
// Attention over quantised pages (docs/conventions.md rows 32, 44, 45): that over the rows as numbers, by the error rule.
#include "tests/support/quantised_case.h"

using namespace attune_test;
using attune::ConstView;

namespace {

constexpr Stored stored_types[] = {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel, Stored::int4};

template<typename T>
void check_quantised(attune::Context &context, const QuantisedCase &c, const attune::PagedOptions &options = {}) {
    QuantisedArrays<T> arrays(c);
    const attune::Status status = arrays.run(context, options);
    INFO(describe(c) << " ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    CHECK(arrays.defect(options) == "");
    CHECK(arrays.all.out.gaps_untouched());
    CHECK(arrays.all.lse.gaps_untouched());
}

// A random batch, whose head sizes can be stored in the types.
QuantisedCase random_quantised_case(unsigned seed) {
    std::mt19937 random(seed);
    QuantisedCase c{random_paged_case(seed)};
    c.keys = stored_types[random() % 5], c.values = random() % 3 == 0 ? stored_types[random() % 5] : c.keys;
    c.group = random() % 3 == 0 ? -1 : random() % 2 ? 64 : 32;
    if (c.pages.head_dim % 32 != 0 || c.pages.head_dim % c.group != 0) c.group = -1;
    if (c.pages.value_dim % 32 != 0 || c.pages.value_dim % c.group != 0) c.group = -1;
    if (c.pages.head_dim % 2 != 0 && c.keys == Stored::int4) c.keys = Stored::int8;
    if (c.pages.value_dim % 2 != 0 && c.values == Stored::int4) c.values = Stored::int8_channel;
    return c;
}

}  // namespace

TEST_CASE("quantised: random batches of prompts, chunks and steps", "[quantised]") {
    attune::Context two({.threads = 2}), five({.threads = 5});
    for (unsigned seed = 1; seed <= 60; seed++) {
        const QuantisedCase c = random_quantised_case(seed);
        PagedOptionsOfSeed given(seed, c.pages.query_heads);
        attune::PagedOptions &o = given.options;
        if (seed % 10 == 6) o.invariant = true;
        check_quantised<float>(seed % 2 ? two : five, c, o);
        if (seed % 3 == 0) check_quantised<BFloat16>(five, c, o);
        if (seed % 3 == 1) check_quantised<Float16>(two, c, o);
    }
}

TEST_CASE("quantised: heads of 64 and 128, long caches, one query and few", "[quantised]") {
    attune::Context two({.threads = 2});
    unsigned seed = 1;
    for (const std::int64_t dim : {64, 128})
        for (const Stored stored : stored_types)
            for (const std::int64_t group : {32, 64, -1}) {
                if (stored != Stored::int4 && group != 32) continue;
                QuantisedCase c{{.queries = {1, 1, 4, 1},
                                 .rows = {1500, 1, 1025, 512},
                                 .page = seed % 2 ? 16 : 64,
                                 .query_heads = 8,
                                 .key_heads = 2,
                                 .head_dim = dim,
                                 .value_dim = dim,
                                 .heads_first = seed % 3 == 0,
                                 .seed = seed},
                                stored,
                                stored,
                                group};
                seed++;
                check_quantised<float>(two, c), check_quantised<BFloat16>(two, c), check_quantised<Float16>(two, c);
            }
}

TEST_CASE("quantised: kernels of rows of i8 and u8 run where queries are few, and can be forced", "[quantised]") {
    attune::Context two({.threads = 2});
    for (const Stored stored : {Stored::int8, Stored::int4}) {
        QuantisedCase c{{.queries = {1}, .rows = {200}, .head_dim = 64, .value_dim = 64}, stored, stored};
        QuantisedArrays<float> arrays(c);
        REQUIRE(arrays.run(two).ok());
        const std::string ran(two.last_variant());
        CHECK(ran.starts_with(stored == Stored::int8 ? "sdpa_int8_f32_d64_" : "sdpa_int4_f32_d64_"));
        c.pages.queries = {40};
        QuantisedArrays<float> many(c);
        REQUIRE(many.run(two).ok());
        CHECK(std::string(two.last_variant()).starts_with("sdpa_f32_"));
        attune::PagedOptions forced;
        forced.variant = ran;
        REQUIRE(many.run(two, forced).ok());
        CHECK(two.last_variant() == ran);
        CHECK(many.defect(forced) == "");
        c.keys = stored == Stored::int8 ? Stored::int4 : Stored::int8;
        QuantisedArrays<float> mixed(c);
        CHECK_FALSE(mixed.run(two, forced).ok());
    }
}

namespace {

// A case of few queries of bf16 over int8, whose query is scaled by 2^of_query and whose values by 2^of_value; and, with
// `positive`, values without a sign, so that weights rounded to 0 would add up to a fault.
QuantisedArrays<BFloat16> scaled_arrays(const QuantisedCase &c, int of_query, int of_value, bool positive) {
    QuantisedArrays<BFloat16> arrays(c);
    arrays.all.query.each([&](BFloat16 &x) { x = BFloat16(std::ldexp(double(x), of_query)); });
    arrays.numbers.value.each([&](double &x) { x = std::ldexp(positive ? std::fabs(x) : x, of_value); });
    arrays.value.scale.each([&](float &x) { x = std::ldexp(x, of_value); });
    if (positive) arrays.value.int8.each([](std::int8_t &q) { q = std::int8_t(std::abs(q)); });
    return arrays;
}
QuantisedCase few_queries(std::int64_t dim, unsigned seed) {
    return {{.queries = {1, 2, 1},
             .rows = {1500, 70, 3},
             .page = 64,
             .query_heads = 8,
             .key_heads = 2,
             .head_dim = dim,
             .value_dim = dim,
             .seed = seed}};
}

}  // namespace

TEST_CASE("quantised: integers stand for queries and weights of any magnitude", "[quantised]") {
    attune::Context two({.threads = 2});
    unsigned seed = 1;
    for (const std::int64_t dim : {64, 128})
        for (const int of_query : {-120, -10, 0, 2, 4, 8, 100})
            for (const int of_value : {-120, 0, 100})
                for (const bool positive : {false, true}) {
                    auto arrays = scaled_arrays(few_queries(dim, seed++), of_query, of_value, positive);
                    REQUIRE(arrays.run(two).ok());
                    INFO("query 2^" << of_query << " value 2^" << of_value << " positive " << positive << ' '
                                    << describe(arrays.the) << " ran " << two.last_variant());
                    CHECK(arrays.defect({}) == "");
                }
}

TEST_CASE("quantised: a query of zeros, and NaN in a query or in a scale", "[quantised]") {
    attune::Context two({.threads = 2});
    const QuantisedCase c = few_queries(64, 1);
    QuantisedArrays<BFloat16> expected(c), arrays(c);
    const auto clear = [](QuantisedArrays<BFloat16> &of) {
        for (std::int64_t d = 0; d < 64; d++) of.all.query(1, 2, d) = BFloat16(0.0);
    };
    clear(expected), clear(arrays);
    REQUIRE(expected.run(two).ok());
    CHECK(expected.defect({}) == "");
    arrays.all.query(0, 3, 5) = poison<BFloat16>(0);  // of the only query of sequence 0
    const std::int32_t last = arrays.all.lists[2][0];
    arrays.value.scale(last, 2, 1) = poison<float>(0);  // of the last row of sequence 2, key head 1
    REQUIRE(arrays.run(two).ok());
    for (std::int64_t t = 0; t < 4; t++)
        for (std::int64_t h = 0; h < 8; h++)
            for (std::int64_t d = 0; d < 64; d++) {
                const float x(arrays.all.out(t, h, d)), y(expected.all.out(t, h, d));
                const bool of_nan = (t == 0 && h == 3) || (t == 3 && h >= 4);
                INFO("query " << t << " head " << h << " channel " << d);
                if (of_nan)
                    CHECK(std::isnan(x));
                else
                    REQUIRE(x == y);
            }
}

TEST_CASE("quantised: a bias of the distance, trees of guesses", "[quantised]") {
    attune::Context two({.threads = 2});
    for (unsigned seed = 1; seed <= 9; seed++) {
        QuantisedCase c = random_quantised_case(seed);
        Array<float> bias({c.pages.query_heads, 20}, {20, 1});
        Array<BFloat16> bias16({c.pages.query_heads, 20}, {20, 1});
        std::mt19937 random(seed);
        bias.randomise(random, 2), bias16.randomise(random, 2);
        attune::PagedOptions o;
        o.distance_bias = bias.view(), o.causal = seed % 2;
        check_quantised<float>(two, c, o);
        o.distance_bias = bias16.view();
        check_quantised<BFloat16>(two, c, o);

        c.pages.queries = {3, 0, 1, 5}, c.pages.rows = {200, 30, 65, 12}, c.pages.prefix_of = {}, c.pages.prefix_rows = {};
        constexpr std::int64_t side = 5;
        std::vector<unsigned char> tree(4 * side * side, 0);
        for (std::int64_t b = 0; b < 4; b++)
            for (std::int64_t i = 0; i < side; i++) tree[std::size_t((b * side + i) * side)] = i > 0;
        for (std::int64_t b = 0; b < 4; b++)
            for (std::int64_t i = 0; i < side; i++) tree[std::size_t((b * side + i) * side + i)] = 1;
        attune::PagedOptions of_tree;
        of_tree.tree_mask = ConstView(reinterpret_cast<const bool *>(tree.data()), {4, side, side});
        check_quantised<float>(two, c, of_tree), check_quantised<Float16>(two, c, of_tree);
    }
}

TEST_CASE("quantised: the same bits for any number of threads", "[quantised]") {
    for (const Stored stored : {Stored::int8, Stored::int8_channel, Stored::int4}) {
        const QuantisedCase c{
            {.queries = {1, 300, 1, 17}, .rows = {5000, 900, 33, 300}, .head_dim = 64, .value_dim = 64}, stored, stored};
        attune::Context one({.threads = 1});
        QuantisedArrays<BFloat16> expected(c);
        REQUIRE(expected.run(one).ok());
        for (int threads : {2, 3, 7}) {
            attune::Context context({.threads = threads});
            QuantisedArrays<BFloat16> arrays(c);
            REQUIRE(arrays.run(context).ok());
            CHECK(same_bits(arrays.all.out.values(), expected.all.out.values()));
            CHECK(same_bits(arrays.all.lse.values(), expected.all.lse.values()));
        }
    }
}
