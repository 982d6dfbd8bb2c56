// SPDX-License-Identifier: MIT
// paged_attention (docs/conventions.md rows 41, 47, 48): each sequence has the bits of attention over its rows in order.
#include "tests/support/paged_case.h"
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

// Options of attention for one sequence that say what these say of all.
struct InOrder {
    std::vector<unsigned char> mask;
    attune::SdpaOptions options;
};
template<typename T>
InOrder in_order(const attune::PagedOptions &o, const PagedArrays<T> &all, std::int64_t s, std::int64_t keys, Array<T> &bias) {
    InOrder made;
    const std::int64_t queries = all.the.queries[std::size_t(s)], older = keys - queries;
    made.options = {.scale = o.scale, .softcap = o.softcap, .alibi = o.alibi, .alibi_slopes = o.alibi_slopes};
    made.options.causal = attune::Causal::offset, made.options.offset = older;
    if (!o.causal || o.tree_mask.given()) made.options.causal = attune::Causal::none;
    made.options.sinks = o.sinks;
    if (!o.tree_mask.given()) made.options.window = o.window;
    if (o.tree_mask.given()) {
        const auto *tree = static_cast<const bool *>(o.tree_mask.data);
        const std::int64_t side = o.tree_mask.extent[1];
        const auto sees = [&](std::int64_t i, std::int64_t j) { return tree[(s * side + i) * side + j]; };
        const auto position = [&](std::int64_t i) {
            std::int64_t depth = -1;
            for (std::int64_t j = 0; j <= i; j++) depth += sees(i, j);
            return older + depth;
        };
        made.mask.assign(std::size_t(queries * keys), 0);
        for (std::int64_t i = 0; i < queries; i++)
            for (std::int64_t j = 0; j < older + i + 1; j++) {
                const std::int64_t at = j < older ? j : position(j - older), behind = position(i) - at;
                const bool within =
                    (o.window.left < 0 || behind <= o.window.left) && (o.window.right < 0 || -behind <= o.window.right);
                made.mask[std::size_t(i * keys + j)] = within && (j < older || sees(i, j - older));
            }
        made.options.mask = ConstView(reinterpret_cast<const bool *>(made.mask.data()), {queries, keys});
    }
    if (o.distance_bias.given()) {
        bias = Array<T>({all.the.query_heads, queries, keys}, dense_strides({all.the.query_heads, queries, keys}));
        for (std::int64_t h = 0; h < all.the.query_heads; h++)
            for (std::int64_t i = 0; i < queries; i++)
                for (std::int64_t j = 0; j < keys; j++) {
                    const std::int64_t r = std::clamp<std::int64_t>(i + older - j, 0, o.distance_bias.extent[1] - 1);
                    static_cast<T *>(bias.view().data)[(h * queries + i) * keys + j] =
                        static_cast<const T *>(o.distance_bias.data)[h * o.distance_bias.extent[1] + r];
                }
        made.options.bias = bias.view();
    }
    return made;
}

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

// Prompts, chunks of prompts, steps, and sequences without queries.
PagedCase random_case(unsigned seed) {
    std::mt19937 random(seed);
    PagedCase c{.queries = {}, .rows = {}, .seed = seed};
    constexpr std::int64_t pages[] = {16, 32, 48, 64, 128};
    c.page = pages[random() % 5], c.heads_first = random() % 2, c.list = random() % 3 == 0;
    for (unsigned s = 0; s < 1 + random() % 8; s++) {
        const std::int32_t kinds[] = {0, 1, 1, std::int32_t(2 + random() % 12), std::int32_t(1 + random() % 140)};
        c.queries.push_back(kinds[random() % 5]);
        c.rows.push_back(c.queries.back() + (random() % 3 ? std::int32_t(random() % 700) : 0));
    }
    constexpr std::int64_t widths[][4] = {{4, 2, 16, 16}, {8, 2, 64, 64}, {4, 4, 128, 128}, {3, 1, 17, 21}, {4, 1, 40, 24}};
    const auto &w = widths[random() % 5];
    c.query_heads = w[0], c.key_heads = w[1], c.head_dim = w[2], c.value_dim = w[3];
    if (random() % 3 == 0) {
        c.prefix_rows = {std::int32_t(16 * (random() % 20)), 64};
        for (std::size_t s = 0; s < c.queries.size(); s++) c.prefix_of.push_back(std::int32_t(random() % 3) - 1);
    }
    return c;
}
}  // namespace

TEST_CASE("paged: a sequence has the bits of attention over its rows in order", "[paged]") {
    attune::Context two({.threads = 2}), five({.threads = 5});
    for (unsigned seed = 1; seed <= 40; seed++) {
        const PagedCase c = random_case(seed);
        std::mt19937 random(seed);
        attune::PagedOptions o;
        o.causal = seed % 5 != 0;
        if (seed % 4 == 1) o.window = {std::int64_t(random() % 200), seed % 8 == 1 ? -1 : 3};
        if (seed % 6 == 2) o.alibi = true;
        if (seed % 7 == 3) o.softcap = 5;
        std::vector<float> sinks;
        for (std::int64_t h = 0; h < c.query_heads; h++) sinks.push_back(float(random() % 40) / 10 - 2);
        if (seed % 4 == 2) o.sinks = ConstView(sinks);
        if (seed % 9 == 4) o.scale = 0.3;
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
        PagedCase c = random_case(seed);
        Array<float> bias({c.query_heads, 20}, {20, 1});
        std::mt19937 random(seed);
        bias.randomise(random, 2);
        attune::PagedOptions o;
        o.distance_bias = bias.view(), o.causal = seed % 2;
        check_paged<float>(two, c, o);
    }
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
