// SPDX-License-Identifier: MIT
// paged_attention (docs/conventions.md rows 41, 47, 48): each sequence has the bits of attention over its rows in order.
#include "tests/support/paged_case.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

template<typename T> void check_paged(attune::Context &context, const PagedCase &c, const attune::PagedOptions &options = {}) {
    PagedArrays<T> all(c), alone(c);
    const attune::Status status = all.run(context, options);
    INFO("seed " << c.seed << " page " << c.page << " ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    attune::Context one({.threads = 1});
    for (std::int64_t s = 0; s < all.batch(); s++) {
        const std::int64_t queries = c.queries[std::size_t(s)];
        if (queries == 0) continue;
        const Array<T> key = all.rows_in_order(all.key, s), value = all.rows_in_order(all.value, s);
        Array<T> bias;
        const ConstView k = const_cast<Array<T> &>(key).view(), v = const_cast<Array<T> &>(value).view();
        InOrder given = in_order(options, all, s, k.extent[2], bias);
        given.options.lse = sequence_of(alone.lse.view(), all.ends[std::size_t(s)], queries);
        const attune::Status single = attune::scaled_dot_product_attention(
            one, sequence_of(all.query.view(), all.ends[std::size_t(s)], queries), k, v,
            sequence_of(alone.out.view(), all.ends[std::size_t(s)], queries), given.options);
        INFO("sequence " << s << " ran " << one.last_variant() << ' ' << single.message());
        REQUIRE(single.ok());
        const View o = all.out.view();
        const std::size_t bytes = std::size_t(queries * o.stride[0]) * sizeof(T),
                          first = std::size_t(all.ends[std::size_t(s)] * o.stride[0]);
        CHECK(std::memcmp(static_cast<const T *>(o.data) + first, static_cast<const T *>(alone.out.view().data) + first,
                          bytes) == 0);
    }
    CHECK(same_bits(all.out.values(), alone.out.values()));
    CHECK(same_bits(all.lse.values(), alone.lse.values()));
    CHECK(all.out.gaps_untouched());
    CHECK(all.lse.gaps_untouched());
}
}  // namespace

TEST_CASE("paged: a sequence has the bits of attention over its rows in order", "[paged]") {
    attune::Context two({.threads = 2}), five({.threads = 5});
    for (unsigned seed = 1; seed <= 40; seed++) {
        const PagedCase c = random_paged_case(seed);
        const PagedOptionsOfSeed given(seed, c.query_heads);
        const attune::PagedOptions &o = given.options;
        check_paged<float>(seed % 2 ? two : five, c, o);
        if (seed % 3 == 0) check_paged<BFloat16>(five, c, o);
        if (seed % 3 == 1) check_paged<Float16>(two, c, o);
        if (seed % 5 == 2) check_paged<double>(two, c, o);
    }
}

TEST_CASE("paged: heads of 64 and 128, long caches, one query and few", "[paged]") {
    attune::Context two({.threads = 2});
    for (const std::int64_t page : {16, 64, 256})
        for (const std::int64_t dim : {64, 128}) {
            const PagedCase c{.queries = {1, 1, 4, 1},
                              .rows = {3000, 1, 2049, 1024},
                              .page = page,
                              .query_heads = 8,
                              .key_heads = 2,
                              .head_dim = dim,
                              .value_dim = dim,
                              .seed = unsigned(page)};
            check_paged<float>(two, c), check_paged<BFloat16>(two, c), check_paged<Float16>(two, c);
        }
}

TEST_CASE("paged: a bias of the distance", "[paged]") {
    attune::Context two({.threads = 2});
    for (unsigned seed = 1; seed <= 6; seed++) {
        PagedCase c = random_paged_case(seed);
        Array<float> bias({c.query_heads, 20}, {20, 1});
        std::mt19937 random(seed);
        bias.randomise(random, 2);
        attune::PagedOptions o;
        o.distance_bias = bias.view(), o.causal = seed % 2;
        check_paged<float>(two, c, o);
    }
}

// A list for each query, as an indexer chooses keys: rows of a pool of pages of 16, seen as pages of one row.
TEST_CASE("paged: lists of single keys for each query", "[paged]") {
    constexpr std::int64_t queries = 9, heads = 4, key_heads = 2, dim = 64, rows = 160, longest = 48;
    std::mt19937 random(3);
    Array<float> query({queries, heads, dim}), pool({rows / 16, 16, key_heads, dim}), values({rows / 16, 16, key_heads, dim}),
        out({queries, heads, dim}), alone({queries, heads, dim});
    for (Array<float> *x : {&query, &pool, &values}) x->randomise(random, 1);
    std::vector<std::int32_t> ends{0}, lens, lists(queries * longest, -1);
    for (std::int64_t i = 0; i < queries; i++) {
        ends.push_back(std::int32_t(i + 1)), lens.push_back(std::int32_t(1 + random() % longest));
        for (std::int32_t j = 0; j < lens.back(); j++) lists[std::size_t(i * longest + j)] = std::int32_t(random() % rows);
    }
    const auto single = [](Array<float> &x) { return ConstView(x.data(), {rows, 1, key_heads, dim}); };
    attune::Context two({.threads = 2});
    const attune::Status status = attune::paged_attention(two, query.view(), single(pool), single(values), ConstView(ends),
                                                          {lists, {queries, longest}}, ConstView(lens), out.view());
    INFO(status.message());
    REQUIRE(status.ok());
    for (std::int64_t i = 0; i < queries; i++) {
        const std::int64_t keys = lens[std::size_t(i)];
        Array<float> key({1, key_heads, keys, dim}), value({1, key_heads, keys, dim});
        for (std::int64_t j = 0; j < keys; j++)
            for (std::int64_t h = 0; h < key_heads; h++)
                for (std::int64_t d = 0; d < dim; d++) {
                    const std::int32_t row = lists[std::size_t(i * longest + j)];
                    key(0, h, j, d) = pool(row / 16, row % 16, h, d), value(0, h, j, d) = values(row / 16, row % 16, h, d);
                }
        REQUIRE(attune::scaled_dot_product_attention(two, sequence_of(query.view(), i, 1), key.view(), value.view(),
                                                     sequence_of(alone.view(), i, 1))
                    .ok());
    }
    CHECK(same_bits(out.values(), alone.values()));
    lists[0] = rows;
    const attune::Status outside = attune::paged_attention(two, query.view(), single(pool), single(values), ConstView(ends),
                                                           {lists, {queries, longest}}, ConstView(lens), out.view());
    CHECK(outside.message().find("page 0 of sequence 0 is 160, must be from 0 to 159") != std::string::npos);
}

TEST_CASE("paged: trees of guesses", "[paged]") {
    attune::Context two({.threads = 2});
    for (unsigned seed = 1; seed <= 8; seed++) {
        std::mt19937 random(seed);
        const PagedCase c{.queries = {7, 0, 1, 12}, .rows = {200, 30, 65, 12}, .page = 32, .seed = seed};
        constexpr std::int64_t side = 12;
        std::vector<unsigned char> tree(4 * side * side, 0);
        for (std::int64_t b = 0; b < 4; b++)
            for (std::int64_t i = 0; i < side; i++) {
                unsigned char *row = &tree[std::size_t((b * side + i) * side)];
                row[i] = 1;
                if (i == 0 || random() % 5 == 0) continue;
                const std::int64_t parent = std::int64_t(random() % unsigned(i));
                for (std::int64_t j = 0; j <= parent; j++) row[j] = tree[std::size_t((b * side + parent) * side + j)];
            }
        attune::PagedOptions o;
        o.tree_mask = ConstView(reinterpret_cast<const bool *>(tree.data()), {4, side, side});
        if (seed % 2) o.window = {20, 5};
        check_paged<float>(two, c, o);
        if (seed % 3 == 0) check_paged<BFloat16>(two, c, o);
    }
}

TEST_CASE("paged: an invariant prompt has the same bits whole, in chunks and row by row", "[paged]") {
    attune::Context two({.threads = 2});
    constexpr std::int32_t prompt = 300;
    const PagedCase whole{.queries = {prompt}, .rows = {prompt}, .head_dim = 64, .value_dim = 64};
    PagedArrays<float> expected(whole);
    attune::PagedOptions invariant;
    invariant.invariant = true;
    REQUIRE(expected.run(two, invariant).ok());
    for (const std::int32_t chunk : {1, 7, 64}) {
        PagedArrays<float> all(whole);
        for (std::int32_t first = 0; first < prompt; first += chunk) {
            const std::int32_t end = std::min(first + chunk, prompt);
            const std::vector<std::int32_t> ends = {0, end - first}, lens = {end};
            const auto rows = [&](View v) {
                v.data = static_cast<float *>(v.data) + first * v.stride[0], v.extent[0] = end - first;
                return v;
            };
            attune::PagedOptions o = invariant;
            o.lse = all.lse.view();
            o.lse.data = static_cast<float *>(o.lse.data) + first, o.lse.extent[1] = end - first;
            REQUIRE(attune::paged_attention(two, rows(all.query.view()), ConstView(all.key.view()), ConstView(all.value.view()),
                                            ConstView(ends), all.block_table(), ConstView(lens), rows(all.out.view()), o)
                        .ok());
        }
        CHECK(same_bits(all.out.values(), expected.out.values()));
        CHECK(same_bits(all.lse.values(), expected.lse.values()));
    }
}

TEST_CASE("paged: the same bits for any number of threads", "[paged]") {
    const PagedCase c{.queries = {1, 300, 1, 17}, .rows = {5000, 900, 33, 300}, .head_dim = 64, .value_dim = 64};
    attune::Context one({.threads = 1});
    PagedArrays<float> expected(c);
    REQUIRE(expected.run(one).ok());
    for (int threads : {2, 3, 7}) {
        attune::Context context({.threads = threads});
        PagedArrays<float> all(c);
        REQUIRE(all.run(context).ok());
        CHECK(same_bits(all.out.values(), expected.out.values()));
        CHECK(same_bits(all.lse.values(), expected.lse.values()));
    }
}
