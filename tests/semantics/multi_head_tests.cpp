// SPDX-License-Identifier: MIT
// multi_head_attention through the dispatcher (docs/conventions.md row 29), against the reference.
#include "tests/support/multi_head_case.h"
#include "tests/support/refusals.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View, attune::WeightsMode;

namespace {
MultiHeadCase usual() {
    return {.attention = {.query_heads = 4, .key_heads = 4, .queries = 9, .keys = 13, .head_dim = 8, .value_dim = 8}};
}
}  // namespace

TEST_CASE("multi-head: biases each on and off, over both types", "[mha][semantics]") {
    attune::Context context({.threads = 2});
    for (unsigned on = 0; on < 16; on++) {
        MultiHeadCase c = usual();
        c.query_bias = on & 1, c.key_bias = on & 2, c.value_bias = on & 4, c.out_bias = on & 8;
        c.attention.seed = on, c.strided = on % 3 == 0;
        check_case<float>(context, c);
        check_case<double>(context, c);
    }
}

TEST_CASE("multi-head: heads, groups, head sizes and numbers of queries and keys", "[mha][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 100;
    for (const auto &[heads, key_heads] : {std::pair(1, 1), {8, 8}, {8, 2}, {6, 1}, {3, 3}})
        for (const auto &[head_dim, value_dim] : {std::pair(8, 8), {64, 64}, {5, 11}, {1, 1}})
            for (const auto &[queries, keys] : {std::pair(1, 1), {1, 70}, {62, 60}, {100, 7}}) {
                MultiHeadCase c = usual();
                c.attention.query_heads = heads, c.attention.key_heads = key_heads, c.attention.queries = queries;
                c.attention.keys = keys, c.attention.head_dim = head_dim, c.attention.value_dim = value_dim;
                c.attention.seed = seed++, c.out_bias = seed % 2, c.query_bias = seed % 3 == 0, c.strided = seed % 5 == 0;
                if (seed % 4 == 0) c.attention.weights = WeightsMode::probabilities;
                check_case<float>(context, c);
                if (seed % 3 == 0) check_case<double>(context, c);
            }
}

TEST_CASE("multi-head: every mask of sdpa, dropout, weights", "[mha][semantics]") {
    attune::Context context({.threads = 2});
    const std::vector<std::function<void(SdpaCase &)>> options = {
        [](SdpaCase &c) {
            c.valid_lens = {0, 7};
        },
        [](SdpaCase &c) { c.valid_lens.assign(18, 5), c.valid_lens[3] = 13; },
        [](SdpaCase &c) { c.causal = Causal::top_left; },
        [](SdpaCase &c) {
            c.causal = Causal::bottom_right, c.window = {4, 0};
        },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {-1, 9};
        },
        [](SdpaCase &c) { c.mask = "b11j"; },
        [](SdpaCase &c) { c.mask = "bhij", c.weights = WeightsMode::probabilities; },
        [](SdpaCase &c) { c.bias = "ij", c.hole = -1e9, c.weights = WeightsMode::masked; },
        [](SdpaCase &c) { c.alibi = Alibi::standard, c.softcap = 3, c.weights = WeightsMode::capped; },
        [](SdpaCase &c) {
            c.sinks = true, c.scale = 1.0, c.valid_lens = {0, 13};
        },
        [](SdpaCase &c) {
            c.dropout = {0.3, 4, 1}, c.weights = WeightsMode::probabilities;
        },
        [](SdpaCase &c) { c.weights = WeightsMode::probabilities, c.average_weights = true; },
        [](SdpaCase &c) {
            c.weights = WeightsMode::scaled, c.valid_lens = {2, 3};
        },
        [](SdpaCase &c) { c.score = attune::Score::cosine, c.scale = 4.0; },
    };
    unsigned seed = 200;
    for (const auto &set : options)
        for (std::int64_t queries : {9, 1}) {
            MultiHeadCase c = usual();
            c.attention.seed = seed++, c.attention.key_heads = 2, c.out_bias = c.value_bias = true;
            if (queries == 1 && seed % 2) c.attention.query_heads = 2;
            set(c.attention);
            if (c.attention.valid_lens.size() == 18 && queries == 1) continue;  // these lengths are for nine queries
            c.attention.queries = queries;
            check_case<float>(context, c);
            check_case<double>(context, c);
        }
}

TEST_CASE("multi-head: self-attention, weights apart and packed give the same", "[mha][semantics]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 6, 70})
        for (int biases : {0, 1, 2})
            for (std::int64_t key_heads : {4, 1}) {
                MultiHeadCase c = usual();
                c.self = true, c.attention.queries = c.attention.keys = queries, c.attention.key_heads = key_heads;
                c.attention.causal = Causal::top_left;
                c.query_bias = biases > 0, c.key_bias = c.value_bias = biases == 1;  // 2: only one of the three
                for (bool packed : {false, true}) {
                    c.packed = packed;
                    check_case<float>(context, c);
                    check_case<double>(context, c);
                    MultiHeadCase cross = c;  // packed weights with different inputs
                    cross.self = false, cross.key_width = cross.value_width = cross.query_width;
                    check_case<float>(context, cross);
                }
            }
}

TEST_CASE("multi-head: each variant of the attention can be forced", "[mha][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        MultiHeadCase c = usual();
        c.attention.head_dim = head_dim, c.attention.value_dim = value_dim;
        check_case<decltype(zero)>(context, c, v.name);
    });
}

TEST_CASE("multi-head: the same bits over threads, and among other batch entries", "[mha][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), seven({.threads = 7});
    for (std::int64_t queries : {1, 5, 80}) {
        MultiHeadCase c = usual();
        c.attention.batch = 3, c.attention.queries = queries, c.attention.keys = 120;
        c.query_width = c.key_width = c.value_width = c.out_width = 96, c.out_bias = true;
        c.attention.valid_lens = {120, 3, 50};
        MultiHeadArrays<float> expected(c);
        INFO(describe(c));
        REQUIRE(expected.run(one).ok());
        for (attune::Context *context : {&two, &seven}) {
            MultiHeadArrays<float> other(c);
            CHECK(other.run(*context).ok());
            CHECK(same_bits(expected.out.values(), other.out.values()));
            CHECK(same_bits(expected.base.lse.values(), other.base.lse.values()));
        }
        // Entry 1 by itself.
        MultiHeadArrays<float> alone(c);
        const auto entry = [](View v) {
            v.data = static_cast<float *>(v.data) + v.stride[0], v.extent[0] = 1;
            return v;
        };
        const std::int32_t length[] = {3};
        attune::MultiHeadOptions options = alone.options();
        options.attention.valid_lens = ConstView(length, {1}), options.attention.lse = entry(alone.base.lse.view());
        const auto status =
            attune::multi_head_attention(two, entry(alone.query.view()), entry(alone.key.view()), entry(alone.value.view()),
                                         alone.weights(), entry(alone.out.view()), options);
        INFO(status.message());
        REQUIRE(status.ok());
        bool same = true;
        for (std::int64_t i = 0; i < queries; i++)
            for (std::int64_t e = 0; e < 96; e++) same = same && same_bits(alone.out(1, i, e), expected.out(1, i, e));
        CHECK(same);
    }
}

TEST_CASE("multi-head: no keys, no queries, no batch", "[mha][semantics]") {
    attune::Context context;
    MultiHeadCase c = usual();
    c.attention.keys = 0, c.out_bias = true;
    check_case<float>(context, c);  // only the bias of the output is left
    for (int empty : {0, 1}) {
        MultiHeadCase none = usual();
        (empty == 0 ? none.attention.batch : none.attention.queries) = 0;
        MultiHeadArrays<float> a(none);
        const auto status = a.run(context);
        INFO(status.message());
        CHECK(status.ok());
        CHECK(a.out.untouched());
    }
}
