// SPDX-License-Identifier: MIT
// Attention over caches depends on the keys that a batch entry holds: not on the room of the cache, nor on other entries.
#include "tests/support/held_case.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
// Checks that the bits of a case do not depend on room, threads or neighbours.
template<typename T> void check_held(const SdpaCase &c, const std::vector<std::int32_t> &held, std::string_view variant = {}) {
    static attune::Context one({.threads = 1}), two({.threads = 2}), seven({.threads = 7});
    const bool wants_lse = !c.weights || c.seed % 2;
    const std::int64_t longest = *std::max_element(held.begin(), held.end());
    const auto arrays = [&](const std::vector<std::int32_t> &lens) {
        HeldArrays<T> a(c, lens);
        a.wants_lse = wants_lse;
        return a;
    };
    INFO(describe(c) << " variant " << variant);
    HeldArrays<T> all = arrays(held);
    const auto status = all.run_in(two, c.keys, false, variant);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(all.out.all_written());
    if (c.weights) CHECK(all.weights.all_written());

    // Another room, another number of threads, by cache_lens.
    for (attune::Context *context : {&one, &seven}) {
        HeldArrays<T> other = arrays(held);
        REQUIRE(other.run_in(*context, std::max<std::int64_t>(longest, 2), false, variant).ok());
        for (std::int64_t b = 0; b < c.batch; b++) CHECK(same_entry(all, other, b));
    }
    if (*std::min_element(held.begin(), held.end()) >= c.queries) {
        HeldArrays<T> other = arrays(held);
        REQUIRE(other.run_in(two, c.keys, true, variant).ok());
        for (std::int64_t b = 0; b < c.batch; b++) CHECK(same_entry(all, other, b));
    }
    // Other neighbours.
    for (std::int64_t b = 0; b < c.batch; b++) {
        std::vector<std::int32_t> lens(held.size(), std::int32_t(b % 2 ? c.keys : 1));
        lens[std::size_t(b)] = held[std::size_t(b)];
        HeldArrays<T> other = arrays(lens);
        REQUIRE(other.run_in(two, c.keys, false, variant).ok());
        CHECK(same_entry(all, other, b));
    }
    // Alone over a tensor that ends where the keys do; dropout counts from the first entry of a call.
    HeldArrays<T> alone = arrays(held);
    for (std::int64_t b = 0; b < (c.dropout.probability > 0 ? 1 : c.batch); b++) {
        REQUIRE(alone.run_alone(two, b, variant).ok());
        INFO("entry " << b);
        CHECK(same_entry(all, alone, b));
    }
}

// Options of a case, by number.
void set_held_options(SdpaCase &c, int kind) {
    if (kind == 1) c.causal = attune::Causal::offset;
    if (kind == 2) c.window = {40, 0}, c.sinks = true;
    if (kind == 3) c.causal = attune::Causal::offset, c.alibi = Alibi::per_batch, c.softcap = 6;
    if (kind == 4) c.bias = "bhij", c.mask = "b11j";
    if (kind == 5) c.bias = "j", c.mask = "hi1", c.sinks = true, c.causal = attune::Causal::offset;
    if (kind == 6) c.dropout = {0.3, 5, 2}, c.window = {100, -1};
    if (kind >= 7 && kind <= 10) c.weights = attune::WeightsMode(kind - 7);
    if (kind == 9) c.causal = attune::Causal::offset, c.average_weights = true;
    if (kind == 11) c.weights = attune::WeightsMode::probabilities, c.average_weights = true, c.sinks = true;
    if (kind == 12) c.weights = attune::WeightsMode::probabilities, c.causal = attune::Causal::offset, c.dropout = {0.4, 1, 0};
    if (kind == 13) c.weights = attune::WeightsMode::scaled, c.average_weights = true;
}
constexpr int kinds = 14;
}  // namespace

TEMPLATE_TEST_CASE("held keys: bits do not depend on the room or on other entries", "[runtime]", float, double, BFloat16,
                   Float16) {
    unsigned seed = 1;
    for (const std::int64_t queries : {1, 5, 66})
        for (int kind = 0; kind < kinds; kind++) {
            SdpaCase c{.batch = 5, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 700, .seed = seed++};
            set_held_options(c, kind);
            check_held<TestType>(c, {66, 0, 350, 67, 129});
            c.head_dim = c.value_dim = 20, c.batch = 3, c.seed = seed++;
            check_held<TestType>(c, {600, 70, 96});
        }
}

TEST_CASE("held keys: the other scores", "[runtime]") {
    unsigned seed = 1;
    for (const attune::Score score : {attune::Score::general, attune::Score::cosine, attune::Score::gaussian})
        for (const std::int64_t queries : {1, 9})
            for (int kind : {0, 1, 4, 6, 7, 10}) {
                SdpaCase c{.batch = 3, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 400, .score = score};
                c.spread = 0.4, c.seed = seed++;
                set_held_options(c, kind);
                check_held<float>(c, {33, 200, 12});
                if (kind == 0) check_held<double>(c, {33, 0, 390});
            }
}

TEST_CASE("held keys: every variant, around its KV blocks", "[runtime][per_variant]") {
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int32_t block = kv_block_of(v);
        unsigned seed = 1;
        for (const std::int64_t queries : {1, 6, tile_of(v) + 1})
            for (int kind : {0, 1, 2}) {
                if (kind == 2 && v.kind == "plain") continue;
                SdpaCase c{.batch = 6, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 4 * block + 9};
                c.head_dim = head_dim, c.value_dim = value_dim, c.seed = seed++;
                set_held_options(c, kind == 2 ? (v.kind == "training" ? 6 : 4) : kind);
                check_held<decltype(zero)>(c, {block + 5, 1, 0, 2 * block, block, 3 * block - 1}, v.name);
            }
    });
}

TEST_CASE("held keys: weights of keys that are not held", "[runtime]") {
    attune::Context context({.threads = 2});
    const float inf = std::numeric_limits<float>::infinity();
    for (const attune::WeightsMode mode :
         {attune::WeightsMode::scaled, attune::WeightsMode::masked, attune::WeightsMode::probabilities})
        for (const bool averaged : {false, true}) {
            SdpaCase c{.batch = 3, .query_heads = 2, .key_heads = 1, .queries = 3, .keys = 90, .weights = mode};
            c.average_weights = averaged;
            HeldArrays<float> a(c, {20, 0, 41});
            REQUIRE(a.run_in(context, 90).ok());
            bool right = true;
            for (std::int64_t b = 0; b < 3; b++)
                for (std::int64_t i = 0; i < 3; i++)
                    for (std::int64_t j = a.held[std::size_t(b)]; j < 90; j++) {
                        const float w = averaged ? a.weights(b, i, j) : a.weights(b, 1, i, j);
                        right = right && (mode == attune::WeightsMode::scaled   ? std::isfinite(w) && w != 0
                                          : mode == attune::WeightsMode::masked ? w == -inf
                                                                                : w == 0);
                    }
            INFO("mode " << int(mode) << " averaged " << averaged);
            CHECK(right);
        }
}

TEST_CASE("held keys: the variant is that of a tensor of these keys", "[runtime][plan]") {
    attune::Context context({.threads = 2});
    for (const std::int64_t queries : {1, 8, 64})
        for (const std::int32_t held : {64, 300, 5000}) {
            SdpaCase c{.batch = 1, .queries = queries, .keys = 20000};
            HeldArrays<float> a(c, {held});
            REQUIRE(a.run_in(context, c.keys).ok());
            const std::string ran(context.last_variant());
            REQUIRE(a.run_alone(context, 0).ok());
            CHECK(ran == context.last_variant());
        }
}
