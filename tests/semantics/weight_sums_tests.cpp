// SPDX-License-Identifier: MIT
// PagedOptions::weight_sums (docs/conventions.md row 49), against the reference and against weights as an output of attention.
#include "tests/support/environment.h"
#include "tests/support/quantised_case.h"
#include "tests/support/refusals.h"
#include "tests/support/variant_grid.h"
#include "tests/support/weight_sums_case.h"

using namespace attune_test;
using attune::ConstView;

namespace {

template<typename T>
void check_sums(attune::Context &context, const PagedCase &c, attune::PagedOptions o = {}, std::vector<bool> groups = {}) {
    if (groups.empty()) groups = {false, true};
    for (const bool of_groups : groups) {
        PagedArrays<T> all(c);
        Array<Sum<T>> sums = weight_sums_of<Sum<T>>(c, of_groups);
        o.weight_sums = sums.view();
        const attune::Status status = all.run(context, o);
        INFO("seed " << c.seed << (of_groups ? " of groups " : " of heads ") << status.message());
        REQUIRE(status.ok());
        CHECK(weight_sums_defect(all, all, o, sums) == "");
        CHECK(sums.gaps_untouched());
    }
}

template<typename T> void check_quantised_sums(attune::Context &context, const QuantisedCase &c, attune::PagedOptions o = {}) {
    QuantisedArrays<T> arrays(c);
    Array<Sum<T>> sums = weight_sums_of<Sum<T>>(c.pages, c.pages.seed % 2);
    o.weight_sums = sums.view();
    const attune::Status status = arrays.run(context, o);
    INFO(describe(c) << ' ' << status.message());
    REQUIRE(status.ok());
    CHECK(weight_sums_defect(arrays.all, arrays.numbers, o, sums) == "");
    CHECK(arrays.defect(o) == "");
}

// Two key heads of two query heads, and more weights of a key head than the scratch of them holds.
const PagedCase of_chunks{
    .queries = {700, 1, 0, 9}, .rows = {3001, 33, 20, 500}, .page = 64, .head_dim = 8, .value_dim = 8, .seed = 3};

}  // namespace

TEST_CASE("weight sums: random batches of prompts, chunks and steps", "[paged][weight_sums]") {
    attune::Context two({.threads = 2}), three({.threads = 3});
    for (unsigned seed = 1; seed <= 24; seed++) {
        const PagedCase c = random_paged_case(seed);
        const PagedOptionsOfSeed given(seed, c.query_heads);
        attune::PagedOptions o = given.options;
        o.invariant = seed % 10 == 6;
        const std::vector<bool> groups = {seed % 2 == 0};
        check_sums<float>(seed % 2 ? two : three, c, o, groups);
        if (seed % 3 == 0) check_sums<BFloat16>(three, c, o, groups);
        if (seed % 3 == 1) check_sums<Float16>(two, c, o, groups);
        if (seed % 3 == 2) check_sums<double>(two, c, o, groups);
    }
}

TEST_CASE("weight sums: several chunks of queries and parts of key heads", "[paged][weight_sums]") {
    attune::Context two({.threads = 2});
    check_sums<float>(two, of_chunks);
    check_sums<BFloat16>(two, of_chunks, {}, {true});
}

TEST_CASE("weight sums: a bias of the distance, and queries that see no key", "[paged][weight_sums]") {
    attune::Context two({.threads = 2});
    for (unsigned seed = 1; seed <= 4; seed++) {
        const PagedCase c = random_paged_case(seed);
        Array<float> bias({c.query_heads, 20}, {20, 1});
        Array<BFloat16> of_16_bits({c.query_heads, 20}, {20, 1});
        std::mt19937 random(seed);
        bias.randomise(random, 2), of_16_bits.randomise(random, 2);
        attune::PagedOptions o;
        o.causal = seed % 2;
        o.distance_bias = bias.view();
        check_sums<float>(two, c, o);
        o.distance_bias = of_16_bits.view();
        check_sums<BFloat16>(two, c, o);
        bias.each([](float &x) { x = -std::numeric_limits<float>::infinity(); });
        o.distance_bias = bias.view();
        check_sums<float>(two, c, o);
    }
}

TEST_CASE("weight sums: strides of extents of one do not matter", "[paged][weight_sums]") {
    attune::Context context;
    PagedArrays<float> all({.queries = {1}, .rows = {1}});
    std::vector<float> sums(4, 9);
    attune::PagedOptions options;
    options.weight_sums = attune::View(sums, {1, 4, 1}, {-5, 1, 7});
    const attune::Status status = all.run(context, options);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(sums == std::vector<float>(4, 1));
}

TEST_CASE("weight sums: trees of guesses", "[paged][weight_sums]") {
    attune::Context two({.threads = 2});
    constexpr std::int64_t side = 7;
    for (unsigned seed = 1; seed <= 4; seed++) {
        std::mt19937 random(seed);
        const PagedCase c{.queries = {7, 0, 1, 5}, .rows = {200, 30, 65, 5}, .page = 32, .seed = seed};
        std::vector<unsigned char> tree(4 * side * side, 0);
        for (std::int64_t b = 0; b < 4; b++)
            for (std::int64_t i = 0; i < side; i++) {
                unsigned char *row = &tree[std::size_t((b * side + i) * side)];
                row[i] = 1;
                if (i == 0) continue;
                const std::int64_t parent = std::int64_t(random() % unsigned(i));
                for (std::int64_t j = 0; j <= parent; j++) row[j] = tree[std::size_t((b * side + parent) * side + j)];
            }
        attune::PagedOptions o;
        o.tree_mask = ConstView(reinterpret_cast<const bool *>(tree.data()), {4, side, side});
        if (seed % 2) o.window = {20, 5};
        check_sums<float>(two, c, o);
        check_sums<Float16>(two, c, o, {seed % 2 == 0});
    }
}

TEST_CASE("weight sums: quantised pages", "[paged][weight_sums]") {
    attune::Context two({.threads = 2});
    constexpr Stored stored_types[] = {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel, Stored::int4};
    unsigned seed = 1;
    for (const Stored keys : stored_types)
        for (const Stored values : {keys, Stored::int8}) {
            const PagedCase pages{.queries = {1, 40, 0, 3},
                                  .rows = {300, 77, 20, 33},
                                  .query_heads = 6,
                                  .head_dim = 64,
                                  .value_dim = 32,
                                  .seed = seed++};
            const PagedOptionsOfSeed given(seed, pages.query_heads);
            check_quantised_sums<float>(two, {pages, keys, values}, given.options);
            check_quantised_sums<BFloat16>(two, {pages, keys, values}, given.options);
        }
}

TEST_CASE("weight sums: the bits of weights as an output, summed in order, by every variant", "[paged][weight_sums]") {
    for_each_wide_variant("weight_sums", {""}, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
        attune::Context context(in_fenced_scratch()), one({.threads = 1});
        const auto block = std::int32_t(parameter_of(v, "block", 8)), task = std::int32_t(parameter_of(v, "task_keys", 64));
        PagedCase c{.queries = {1, 1, 5, 1, 2, 700}, .rows = {1, block - 1, block, block + 1, 2 * task + 3, 3001}, .seed = 5};
        c.query_heads = 6, c.head_dim = c.value_dim = 8;
        for (const bool of_groups : {false, true}) {
            PagedArrays<T> all(c);
            Array<T> sums = weight_sums_of<T>(c, of_groups);
            attune::PagedOptions o;
            o.weight_sums = sums.view();
            REQUIRE(all.run(context, o).ok());
            for (std::size_t s = 0; s < c.rows.size(); s++) {
                const std::int64_t keys = c.rows[s], queries = c.queries[s];
                Array<T> key = all.rows_in_order(all.key, std::int64_t(s)),
                         value = all.rows_in_order(all.value, std::int64_t(s)), out({1, c.query_heads, queries, c.value_dim}),
                         weights({1, c.query_heads, queries, keys});
                REQUIRE(attune::scaled_dot_product_attention(
                            one, sequence_of(all.query.view(), all.ends[s], queries), key.view(), value.view(), out.view(),
                            {.causal = attune::Causal::bottom_right, .weights = weights.view()})
                            .ok());
                const attune::View all_sums = sums.view();
                std::vector<T> got;
                for (std::int64_t h = 0; h < all_sums.extent[1]; h++)
                    for (std::int64_t j = 0; j < keys; j++) got.push_back(sums(std::int64_t(s), h, j));
                INFO("sequence " << s);
                CHECK(same_bits(got, sums_by_key(weights.values(), c, s, all_sums.extent[1])));
            }
        }
    });
}

TEST_CASE("weight sums: a variant that does not fit is refused before anything is written", "[paged][weight_sums]") {
    for_each_wide_variant("weight_sums", {""}, [](const attune::VariantInfo &v, auto zero) {
        using Other = std::conditional_t<std::is_same_v<decltype(zero), float>, double, float>;
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
        attune::Context context;
        PagedArrays<Other> all({.queries = {2}, .rows = {20}});
        Array<Other> sums = weight_sums_of<Other>(all.the, false);
        CHECK(all.run(context).ok());  // it needs no sums
        all.out.forget(), all.lse.forget();
        attune::PagedOptions o;
        o.weight_sums = sums.view();
        const attune::Status status = all.run(context, o);
        CHECK(message_defect(status.message(), "ATTUNE_FORCE_VARIANT", {std::string(v.name)}) == "");
        CHECK((all.out.untouched() && all.lse.untouched() && sums.untouched()));
    });
}

TEST_CASE("weight sums: the same bits for any number of threads, and alone", "[paged][weight_sums]") {
    attune::Context one({.threads = 1});
    PagedArrays<float> expected(of_chunks), without(of_chunks);
    Array<float> sums = weight_sums_of<float>(of_chunks, true);
    attune::PagedOptions o;
    o.weight_sums = sums.view();
    REQUIRE(expected.run(one, o).ok());
    for (const int threads : {2, 3}) {
        attune::Context context({.threads = threads});
        PagedArrays<float> all(of_chunks);
        Array<float> of_threads = weight_sums_of<float>(of_chunks, true);
        o.weight_sums = of_threads.view();
        REQUIRE(all.run(context, o).ok());
        CHECK(same_bits(of_threads.values(), sums.values()));
    }
    // The output of attention is that of a call without sums.
    REQUIRE(without.run(one).ok());
    CHECK(same_bits(without.out.values(), expected.out.values()));
    CHECK(same_bits(without.lse.values(), expected.lse.values()));
    // Each sequence in a call of its own.
    for (std::int64_t s = 0; s < expected.batch(); s++) {
        const std::int32_t ends[] = {0, of_chunks.queries[std::size_t(s)]}, lens[] = {of_chunks.rows[std::size_t(s)]};
        Array<float> alone({1, of_chunks.key_heads, 3001 + spare_keys});
        attune::View query = expected.query.view(), out = expected.out.view();
        for (attune::View *v : {&query, &out}) {
            v->data = static_cast<float *>(v->data) + expected.ends[std::size_t(s)] * v->stride[0];
            v->extent[0] = ends[1];
        }
        const std::int32_t *table = expected.table.data() + s * expected.width;
        attune::PagedOptions of_one;
        of_one.weight_sums = alone.view();
        REQUIRE(attune::paged_attention(one, query, ConstView(expected.key.view()), ConstView(expected.value.view()),
                                        ConstView(ends, {2}), ConstView(table, {1, expected.width}), ConstView(lens, {1}), out,
                                        of_one)
                    .ok());
        attune::View in_batch = sums.view();
        std::vector<float> same;
        for (std::int64_t h = 0; h < in_batch.extent[1]; h++)
            for (std::int64_t j = 0; j < in_batch.extent[2]; j++) same.push_back(sums(s, h, j));
        CHECK(same_bits(alone.values(), same));
    }
}
