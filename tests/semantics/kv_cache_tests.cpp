// SPDX-License-Identifier: MIT
// kv_append and SdpaOptions::cache_lens (docs/conventions.md rows 5 and 31).
#include "attune/attune.h"
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::CacheWhenFull, attune::Causal, attune::ConstView;

namespace {

struct AppendCase {
    std::vector<std::int32_t> held;           // per batch entry
    std::vector<std::int32_t> new_lens = {};  // empty: not given
    std::int64_t heads = 2, rows = 3, capacity = 12, head_dim = 8, value_dim = 6;
    Layout rows_layout = Layout::dense, cache_layout = Layout::dense;
    CacheWhenFull when_full = CacheWhenFull::refuse;
};

template<typename T> struct AppendArrays {
    AppendCase the;
    Array<T> key, value, key_cache, value_cache;

    explicit AppendArrays(const AppendCase &c)
        : the(c), key({batch(), c.heads, c.rows, c.head_dim}, c.rows_layout),
          value({batch(), c.heads, c.rows, c.value_dim}, c.rows_layout),
          key_cache({batch(), c.heads, c.capacity, c.head_dim}, c.cache_layout, poison<T>(2)),
          value_cache({batch(), c.heads, c.capacity, c.value_dim}, c.cache_layout, poison<T>(2)) {
        std::mt19937 random(1);
        for (Array<T> *a : {&key, &value, &key_cache, &value_cache}) a->randomise(random, 2);
    }
    std::int64_t batch() const { return std::int64_t(the.held.size()); }
    attune::Status run(attune::Context &context) {
        attune::KvAppendOptions options{.when_full = the.when_full};
        if (!the.new_lens.empty()) options.new_lens = ConstView(the.new_lens.data(), {batch()});
        return attune::kv_append(context, key.view(), value.view(), ConstView(the.held.data(), {batch()}), key_cache.view(),
                                 value_cache.view(), options);
    }
};

// Reference: the held rows, then the new ones, of which the last that fit are kept; memory beyond is unchanged.
template<typename T> std::vector<T> grown(const AppendCase &c, Array<T> &cache, Array<T> &rows, std::int64_t width) {
    std::vector<T> all;
    for (std::int64_t b = 0; b < std::int64_t(c.held.size()); b++)
        for (std::int64_t h = 0; h < c.heads; h++) {
            std::vector<T *> sequence;
            const std::int64_t added = c.new_lens.empty() ? c.rows : c.new_lens[std::size_t(b)];
            for (std::int64_t n = 0; n < c.held[std::size_t(b)]; n++) sequence.push_back(&cache(b, h, n, 0));
            for (std::int64_t n = 0; n < added; n++) sequence.push_back(&rows(b, h, n, 0));
            const std::int64_t dropped = std::max<std::int64_t>(std::int64_t(sequence.size()) - c.capacity, 0);
            sequence.erase(sequence.begin(), sequence.begin() + dropped);
            for (std::int64_t n = std::int64_t(sequence.size()); n < c.capacity; n++) sequence.push_back(&cache(b, h, n, 0));
            for (const T *row : sequence) all.insert(all.end(), row, row + width);
        }
    return all;
}

template<typename T> void check_append(attune::Context &context, const AppendCase &c) {
    INFO("held " << c.held[0] << " rows " << c.rows << " capacity " << c.capacity << " layouts " << name_of(c.rows_layout)
                 << ' ' << name_of(c.cache_layout) << " slides " << (c.when_full == CacheWhenFull::slide));
    AppendArrays<T> a(c);
    const auto keys = grown(c, a.key_cache, a.key, c.head_dim), values = grown(c, a.value_cache, a.value, c.value_dim);
    const auto status = a.run(context);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(same_bits(a.key_cache.values(), keys));
    CHECK(same_bits(a.value_cache.values(), values));
    CHECK(a.key_cache.gaps_untouched());
    CHECK(a.value_cache.gaps_untouched());
    CHECK(context.last_variant().empty());
}

}  // namespace

TEMPLATE_TEST_CASE("kv_append: rows stand behind those that are held, in any layout", "[kv_cache]", float, double, BFloat16,
                   Float16) {
    attune::Context context({.threads = 2});
    for (Layout rows : {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::reversed})
        for (Layout cache : {Layout::dense, Layout::bshd, Layout::padded, Layout::reversed})
            for (CacheWhenFull when_full : {CacheWhenFull::refuse, CacheWhenFull::slide}) {
                AppendCase c{.held = {0, 9, 4}, .rows_layout = rows, .cache_layout = cache, .when_full = when_full};
                check_append<TestType>(context, c);
                c.new_lens = {3, 0, 2};
                check_append<TestType>(context, c);
                c.rows = 0, c.new_lens = {};
                check_append<TestType>(context, c);
            }
}

TEST_CASE("kv_append: a full cache slides, and keeps the newest rows in order", "[kv_cache]") {
    attune::Context context({.threads = 2});
    for (Layout cache : {Layout::dense, Layout::bshd, Layout::padded, Layout::reversed})
        for (std::int64_t rows : {1, 5, 12, 13, 30})
            for (std::int64_t capacity : {1, 12}) {
                const auto full = std::int32_t(capacity);
                check_append<float>(context, {.held = {full, full / 2, 0, full},
                                              .rows = rows,
                                              .capacity = capacity,
                                              .cache_layout = cache,
                                              .when_full = CacheWhenFull::slide});
                check_append<float>(context, {.held = {full, full, 0, 0},
                                              .new_lens = {0, 1, std::int32_t(rows), 1},
                                              .rows = rows,
                                              .capacity = capacity,
                                              .cache_layout = cache,
                                              .when_full = CacheWhenFull::slide});
            }
}

TEST_CASE("kv_append: as much as is shared among threads", "[kv_cache]") {
    for (int threads : {1, 2, 7}) {
        attune::Context context({.threads = threads});
        for (CacheWhenFull when_full : {CacheWhenFull::refuse, CacheWhenFull::slide})
            check_append<float>(context, {.held = {100, 0},
                                          .heads = 5,
                                          .rows = 700,
                                          .capacity = when_full == CacheWhenFull::slide ? 750 : 800,
                                          .head_dim = 64,
                                          .value_dim = 80,
                                          .when_full = when_full});
    }
}

TEST_CASE("kv_append: nothing to append to", "[kv_cache]") {
    attune::Context context;
    Array<float> none({0, 2, 3, 8}), no_heads({2, 0, 3, 8}), no_room({2, 2, 0, 8});
    const std::vector<std::int32_t> held = {0, 0};
    CHECK(attune::kv_append(context, none.view(), none.view(), ConstView(held.data(), {0}), none.view(), none.view()).ok());
    Array<float> other = no_heads;
    CHECK(attune::kv_append(context, no_heads.view(), no_heads.view(), ConstView(held.data(), {2}), other.view(), other.view())
              .ok());
    CHECK(
        attune::kv_append(context, no_room.view(), no_room.view(), ConstView(held.data(), {2}), no_room.view(), no_room.view())
            .ok());
}

TEST_CASE("cache_lens: the same as valid_lens and offsets", "[kv_cache]") {
    attune::Context context({.threads = 2});
    const std::vector<std::int32_t> cache_lens = {0, 17, 60};
    unsigned seed = 1;
    for (std::int64_t queries : {1, 4, 40})
        for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right, Causal::offset})
            for (std::int64_t left : {-1, 9})
                for (Alibi alibi : {Alibi::none, Alibi::standard}) {
                    SdpaCase c{.batch = 3, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 100};
                    c.causal = causal, c.window.left = left, c.alibi = alibi, c.seed = seed++;
                    if (seed % 2) c.weights = attune::WeightsMode::probabilities;
                    SdpaCase longhand = c;
                    longhand.offsets = cache_lens;
                    for (std::int32_t n : cache_lens) longhand.valid_lens.push_back(n + std::int32_t(queries));
                    INFO(describe(longhand));
                    SdpaArrays<float> expected(longhand), a(c);
                    REQUIRE(expected.run(context).ok());
                    CHECK(defect(expected) == "");
                    auto options = a.options({});
                    options.cache_lens = ConstView(cache_lens.data(), {3});
                    const auto status = attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(),
                                                                             a.value.view(), a.out.view(), options);
                    INFO(status.message());
                    REQUIRE(status.ok());
                    CHECK(same_bits(a.out.values(), expected.out.values()));
                    CHECK(same_bits(a.lse.values(), expected.lse.values()));
                    CHECK(same_bits(a.weights.values(), expected.weights.values()));
                    const auto query = a.query.view(), key = a.key.view(), value = a.value.view();
                    CHECK(value_defect(sdpa_reference<double, float>(query, key, value, options),
                                       plain_sdpa<float>(query, key, value, options), a) == "");
                }
}

TEST_CASE("cache_lens: a prompt and steps over a cache are attention over the whole sequence", "[kv_cache]") {
    attune::Context context({.threads = 2});
    const std::int64_t length = 45, capacity = 64;
    SdpaArrays<float> whole(
        {.batch = 2, .query_heads = 4, .key_heads = 2, .queries = length, .keys = length, .causal = Causal::top_left});
    Array<float> key_cache({2, 2, capacity, 64}), value_cache({2, 2, capacity, 64});
    std::int64_t done = 0;
    for (std::int64_t count : {20, 1, 1, 5, 1, 10, 1, 1, 1, 4}) {
        const auto rows = [&](attune::View v) {
            v.data = static_cast<float *>(v.data) + done * v.stride[2];
            v.extent[2] = count;
            return v;
        };
        const std::vector<std::int32_t> held(2, std::int32_t(done));
        const ConstView cache_lens(held.data(), {2});
        REQUIRE(attune::kv_append(context, rows(whole.key.view()), rows(whole.value.view()), cache_lens, key_cache.view(),
                                  value_cache.view())
                    .ok());
        // Contents of the caches beyond their rows, NaN here, have no effect.
        const auto status = attune::scaled_dot_product_attention(
            context, rows(whole.query.view()), key_cache.view(), value_cache.view(), rows(whole.out.view()),
            {.causal = Causal::bottom_right, .cache_lens = cache_lens, .lse = rows(whole.lse.view())});
        INFO("at " << done << ": " << status.message());
        REQUIRE(status.ok());
        done += count;
    }
    REQUIRE(done == length);
    CHECK(defect(whole) == "");
}
