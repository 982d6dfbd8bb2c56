// SPDX-License-Identifier: MIT
// Bits depend on the call alone: not on threads, other batch entries or heads, nor on other Contexts at work.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <thread>

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
// A case large enough that the library shares it among threads (calls of under a million multiply-adds run on one).
SdpaCase shared_work(std::int64_t head_dim, std::int64_t value_dim) {
    return {.batch = 2,
            .query_heads = 4,
            .key_heads = 2,
            .queries = 70,
            .keys = 300,
            .head_dim = head_dim,
            .value_dim = value_dim,
            .causal = attune::Causal::bottom_right};
}

// Entries [begin, end) of dimension n of a view.
template<typename V> V slice(V view, int n, std::int64_t begin, std::int64_t end) {
    using Byte = std::conditional_t<std::is_same_v<V, View>, char, const char>;
    view.data = static_cast<Byte *>(view.data) + begin * view.stride[n] * attune::size_of(view.dtype);
    view.extent[n] = end - begin;
    return view;
}

// Whether batch entry b and key heads [h, h + heads) computed alone have their bits in `all`.
template<typename T>
bool same_alone(attune::Context &context, SdpaArrays<T> &all, std::int64_t b, std::int64_t h, std::int64_t heads) {
    const std::int64_t group = all.the.query_heads / all.the.key_heads;
    SdpaArrays<T> alone(all.the);
    const auto part = [&](View v, std::int64_t per_key_head) {
        return slice(slice(v, 0, b, b + 1), 1, h * per_key_head, (h + heads) * per_key_head);
    };
    auto options = all.options({});
    options.lse = part(alone.lse.view(), group);
    if (options.valid_lens.given()) options.valid_lens = slice(options.valid_lens, 0, b, b + 1);
    if (options.offsets.given()) options.offsets = slice(options.offsets, 0, b, b + 1);
    const auto status = attune::scaled_dot_product_attention(context, part(all.query.view(), group), part(all.key.view(), 1),
                                                             part(all.value.view(), 1), part(alone.out.view(), group), options);
    INFO(status.message());
    CHECK(status.ok());
    bool same = true;
    for (std::int64_t q = h * group; q < (h + heads) * group; q++)
        for (std::int64_t i = 0; i < all.the.queries; i++) same = same && same_row(alone, all, b, q, i);
    return same;
}
}  // namespace

TEST_CASE("runtime: the same bits over 1, 2, 3 and 7 threads, and again, for each variant", "[runtime][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase few = shared_work(head_dim, value_dim);
        few.queries = 4, few.keys = std::max(4 * kv_block_of(v) + 5, 2500), few.causal = attune::Causal::none;
        few.valid_lens = {std::int32_t(few.keys), std::int32_t(few.keys - 700)};
        for (const SdpaCase &c : {shared_work(head_dim, value_dim), few}) {
            SdpaArrays<T> expected(c);
            CHECK(expected.run(one, v.name).ok());
            CHECK(expected.out.all_written());
            for (attune::Context *context : {&one, &two, &three, &seven, &seven}) {
                SdpaArrays<T> other(c);
                CHECK(other.run(*context, v.name).ok());
                INFO(describe(c) << " threads " << context->threads());
                CHECK(same_bits(expected.out.values(), other.out.values()));
                CHECK(same_bits(expected.lse.values(), other.lse.values()));
            }
        }
    });
}

// More threads than parts of the tasks, and a number of tasks that no number of parts divides.
TEST_CASE("runtime: the same bits over 1, 5 and 200 threads", "[runtime]") {
    attune::Context one({.threads = 1}), five({.threads = 5}), many({.threads = 200});
    SdpaCase c{.batch = 1, .query_heads = 13, .key_heads = 13, .queries = 900, .keys = 700, .head_dim = 64, .value_dim = 64};
    c.causal = attune::Causal::bottom_right;
    SdpaArrays<float> expected(c);
    REQUIRE(expected.run(one, "").ok());
    for (attune::Context *context : {&five, &many, &five, &many}) {
        SdpaArrays<float> other(c);
        REQUIRE(other.run(*context, "").ok());
        CHECK(same_bits(expected.out.values(), other.out.values()));
        CHECK(same_bits(expected.lse.values(), other.lse.values()));
    }
}

TEST_CASE("runtime: the same bits over threads with every option of the score, for each variant", "[runtime][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), seven({.threads = 7});
    for_each_variant("sdpa", {"scored", "training", "weights"}, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase c = shared_work(head_dim, value_dim);
        c.softcap = 6, c.bias = "hij", c.mask = "b1ij", c.alibi = Alibi::per_batch, c.sinks = true;
        if (v.kind == "training") c.dropout = {0.2, 3, 1};
        if (v.kind == "weights")
            c.weights = attune::WeightsMode::probabilities, c.average_weights = v.dtype == attune::DType::f32;
        SdpaArrays<T> expected(c);
        const auto status = expected.run(one, v.name);
        INFO(describe(c) << ' ' << status.message());
        CHECK(status.ok());
        for (attune::Context *context : {&two, &seven, &seven}) {
            SdpaArrays<T> other(c);
            CHECK(other.run(*context, v.name).ok());
            CHECK(same_bits(expected.out.values(), other.out.values()));
            CHECK(same_bits(expected.lse.values(), other.lse.values()));
            CHECK(same_bits(expected.weights.values(), other.weights.values()));
        }
    });
}

TEST_CASE("runtime: a batch entry's bits do not depend on the masks, slopes and numbers of others", "[runtime]") {
    attune::Context context({.threads = 2});
    for (attune::Score score : {attune::Score::dot_product, attune::Score::cosine, attune::Score::gaussian})
        for (std::int64_t queries : {1, 5, 90}) {
            SdpaCase c{.batch = 3, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 150, .score = score};
            c.softcap = 6, c.bias = "bhij", c.mask = "b11j", c.alibi = Alibi::per_batch, c.sinks = true, c.spread = 0.4;
            c.weights = attune::WeightsMode::probabilities;
            SdpaArrays<float> all(c), changed(c);
            for (std::int64_t b : {0, 2}) {
                for (std::int64_t i = 0; i < queries; i++) changed.bias(b, 1, i, 3) = -std::numeric_limits<float>::infinity();
                changed.mask(b, 0, 0, 7) = !changed.mask(b, 0, 0, 7);
                changed.key(b, 1, 9, 0) = std::nanf("");
                changed.slopes.data()[b * 4 + 1] = 9;
            }
            INFO(describe(c));
            REQUIRE(all.run(context).ok());
            REQUIRE(changed.run(context).ok());
            bool same = true;
            for (std::int64_t h = 0; h < 4; h++)
                for (std::int64_t i = 0; i < queries; i++) {
                    for (std::int64_t d = 0; d < 64; d++)
                        same = same && same_bits(all.out(1, h, i, d), changed.out(1, h, i, d));
                    for (std::int64_t j = 0; j < 150; j++)
                        same = same && same_bits(all.weights(1, h, i, j), changed.weights(1, h, i, j));
                }
            CHECK(same);
        }
}

TEST_CASE("runtime: a batch entry alone has the bits that it has among others", "[runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 4, 20, 100})
        for (std::int64_t keys : {10, 200})
            for (int kind : {0, 1, 2}) {
                SdpaCase c{.batch = 4, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys};
                if (kind == 1) c.valid_lens = {0, std::int32_t(keys), 3, 7}, c.causal = attune::Causal::bottom_right;
                if (kind == 2) c.causal = attune::Causal::offset, c.offsets = {-1, 0, 5, 100}, c.window = {40, -1};
                SdpaArrays<float> all(c);
                CHECK(all.run(context).ok());
                INFO(describe(c));
                for (std::int64_t b = 0; b < c.batch; b++) CHECK(same_alone(context, all, b, 0, c.key_heads));
            }
}

TEST_CASE("runtime: a key head and its group alone have the bits that they have among others", "[runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t group : {1, 2, 4})
        for (std::int64_t queries : {1, 30, 100}) {
            SdpaCase c{.batch = 3,
                       .query_heads = 3 * group,
                       .key_heads = 3,
                       .queries = queries,
                       .keys = 200,
                       .valid_lens = {0, 199, 3}};
            SdpaArrays<double> all(c);
            CHECK(all.run(context).ok());
            INFO(describe(c));
            for (std::int64_t b = 0; b < c.batch; b++)
                for (std::int64_t h = 0; h < c.key_heads; h++) CHECK(same_alone(context, all, b, h, 1));
        }
}

TEST_CASE("runtime: what neighbours in the batch hold does not matter", "[runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 100}) {
        SdpaCase c{.batch = 3, .queries = queries, .keys = 150};
        SdpaArrays<float> clean(c), spoiled(c);
        for (auto *array : {&spoiled.query, &spoiled.key, &spoiled.value})
            for (std::int64_t b : {0, 2})
                for (std::int64_t h = 0; h < 2; h++) (*array)(b, h, 0, 0) = std::nanf("");
        CHECK(clean.run(context).ok());
        CHECK(spoiled.run(context).ok());
        bool same = true;
        for (std::int64_t h = 0; h < 2; h++)
            for (std::int64_t i = 0; i < queries; i++)
                for (std::int64_t d = 0; d < 64; d++) same = same && same_bits(clean.out(1, h, i, d), spoiled.out(1, h, i, d));
        CHECK(same);
    }
}

TEST_CASE("runtime: two Contexts of different thread counts at work at once", "[runtime]") {
    const SdpaCase c = shared_work(64, 64);
    attune::Context alone({.threads = 1});
    SdpaArrays<float> expected(c);
    REQUIRE(expected.run(alone).ok());
    const auto out = expected.out.values(), lse = expected.lse.values();
    // Checks are counted here and made below: Catch2's macros are not thread-safe.
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; n++)
        threads.emplace_back([&, n] {
            attune::Context context({.threads = 1 + 2 * n});
            wrong[std::size_t(n)] += context.threads() != 1 + 2 * n;
            for (int call = 0; call < 20; call++) {
                SdpaArrays<float> a(c);
                wrong[std::size_t(n)] +=
                    !a.run(context).ok() || !same_bits(a.out.values(), out) || !same_bits(a.lse.values(), lse);
            }
        });
    for (std::thread &t : threads) t.join();
    CHECK(wrong == std::vector<int>(4, 0));
}
