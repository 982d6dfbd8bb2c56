// SPDX-License-Identifier: MIT
// SdpaOptions::invariant: a prompt at once, in chunks and token by token gives the same bits.
#include "tests/support/held_case.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
constexpr std::int64_t prompt = 300;

enum class Chunks { by_offset, in_cache };

// Runs the queries of some chunks of a prompt, each over the keys up to its own, or over a cache of all of them.
template<typename T, typename Wanted>
attune::Status run_chunks(attune::Context &context, SdpaArrays<T> &a, std::int64_t chunk, Chunks how, std::string_view variant,
                          const Wanted &wanted) {
    const std::int64_t all = a.the.queries;
    for (std::int64_t first = 0; first < all; first += chunk) {
        if (!wanted(first)) continue;
        const std::int64_t count = std::min(chunk, all - first), keys = how == Chunks::in_cache ? all : first + count;
        const auto rows = [&](auto view, int dimension) { return part_of(view, dimension, first, count); };
        attune::SdpaOptions o = a.options(variant);
        o.lse = rows(o.lse, 2), o.invariant = true;
        if (o.bias.given()) o.bias = part_of(rows(o.bias, o.bias.rank - 2), o.bias.rank - 1, 0, keys);
        const std::vector<std::int32_t> held(std::size_t(a.the.batch), std::int32_t(first));
        if (how == Chunks::in_cache)
            o.cache_lens = attune::ConstView(held.data(), {a.the.batch});
        else
            o.offset = first;
        const auto status =
            attune::scaled_dot_product_attention(context, rows(a.query.view(), 2), part_of(a.key.view(), 2, 0, keys),
                                                 part_of(a.value.view(), 2, 0, keys), rows(a.out.view(), 2), o);
        if (!status.ok()) return status;
    }
    return {};
}
template<typename T> attune::Status run_whole(attune::Context &context, SdpaArrays<T> &a, std::string_view variant = {}) {
    return run_chunks(context, a, a.the.queries, Chunks::by_offset, variant, [](std::int64_t) { return true; });
}

void set_prompt_options(SdpaCase &c, int kind) {
    c.causal = attune::Causal::offset;
    if (kind == 1) c.window = {50, -1};
    if (kind == 2) c.alibi = Alibi::standard;
    if (kind == 3) c.sinks = true, c.softcap = 4;
    if (kind == 4) c.window = {33, -1}, c.alibi = Alibi::standard, c.sinks = true, c.bias = "hij";
}

template<typename T> void check_chunks(SdpaCase c, std::string_view variant = {}, std::int64_t kv_block = prompt) {
    static attune::Context one({.threads = 1}), two({.threads = 2});
    SdpaArrays<T> whole(c);
    const auto status = run_whole(two, whole, variant);
    INFO(describe(c) << ' ' << variant << ' ' << two.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    REQUIRE(whole.out.all_written());
    for (const std::int64_t chunk : {1, 7, 64, 300})
        for (const Chunks how : {Chunks::by_offset, Chunks::in_cache}) {
            // Some chunks of a long prompt: at KV blocks' ends, and others.
            const auto wanted = [&](std::int64_t first) {
                const std::int64_t in_block = (first + kv_block / 2) % kv_block - kv_block / 2;  // from the nearest end
                return c.queries <= prompt || std::abs(in_block) <= chunk || first / chunk % 23 == 0;
            };
            SdpaArrays<T> cut(c);
            REQUIRE(run_chunks(one, cut, chunk, how, variant, wanted).ok());
            INFO("chunk " << chunk << (how == Chunks::in_cache ? " in a cache" : ""));
            bool same = true;
            for (std::int64_t i = 0; i < c.queries; i++)
                for (std::int64_t h = 0; h < c.query_heads; h++)
                    same = same && (!wanted(i / chunk * chunk) || same_row(whole, cut, 0, h, i));
            CHECK(same);
        }
}

SdpaCase prompt_case(std::int64_t head_dim, std::int64_t value_dim) {
    SdpaCase c{.batch = 1, .query_heads = 4, .key_heads = 2, .queries = prompt, .keys = prompt};
    c.head_dim = head_dim, c.value_dim = value_dim;
    return c;
}
}  // namespace

TEMPLATE_TEST_CASE("invariant: a prompt in chunks of any size has the bits of the whole", "[runtime][invariant]", float, double,
                   BFloat16, Float16) {
    for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {128, 128}, {20, 33}})
        for (int kind = 0; kind < 5; kind++) {
            SdpaCase c = prompt_case(head_dim, value_dim);
            set_prompt_options(c, kind);
            check_chunks<TestType>(c);
        }
}

// The variants that dispatch may choose or a caller may force, over several of their KV blocks.
TEST_CASE("invariant: every variant but AMX gives chunks the bits of the whole", "[runtime][invariant][per_variant]") {
    attune::Context context;
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase c = prompt_case(head_dim, value_dim);
        if (v.schedule == "amx") {
            SdpaArrays<T> refused(c);
            const auto status = run_whole(context, refused, v.name);
            CHECK(status.code() == attune::StatusCode::unsupported);
            CHECK(std::string(status.message()).find("invariant") != std::string::npos);
            CHECK(refused.out.untouched());
            return;
        }
        for (int kind = 0; kind < (v.kind == "plain" ? 2 : 5); kind++) {
            set_prompt_options(c, kind);
            check_chunks<T>(c, v.name);
        }
        if (kv_block_of(v) <= prompt / 2) return;
        c = prompt_case(head_dim, value_dim);
        c.query_heads = 2, c.key_heads = 1, c.queries = c.keys = 2 * kv_block_of(v) + 70;
        set_prompt_options(c, v.kind == "plain" ? 0 : 2);
        check_chunks<T>(c, v.name, kv_block_of(v));
    });
}

TEST_CASE("invariant: packed sequences and batches", "[runtime][invariant]") {
    attune::Context context({.threads = 2});
    for (const std::int64_t chunk : {1, 40}) {
        SdpaCase c = prompt_case(64, 64);
        c.causal = attune::Causal::offset;
        SdpaArrays<float> whole(c);
        REQUIRE(run_whole(context, whole).ok());
        // The chunk that ends at each of two places, as two packed sequences over the keys up to there, and a short third.
        const std::int64_t ends[] = {chunk + 3, prompt, chunk};
        std::vector<float> query, key, value, out(std::size_t(3 * chunk * 4 * 64));
        std::vector<std::int32_t> query_ends = {0}, key_ends = {0};
        for (const std::int64_t end : ends) {
            for (std::int64_t i = end - chunk; i < end; i++)
                for (std::int64_t h = 0; h < 4; h++)
                    for (std::int64_t d = 0; d < 64; d++) query.push_back(whole.query(0, h, i, d));
            for (std::int64_t j = 0; j < end; j++)
                for (std::int64_t h = 0; h < 2; h++)
                    for (std::int64_t d = 0; d < 64; d++)
                        key.push_back(whole.key(0, h, j, d)), value.push_back(whole.value(0, h, j, d));
            query_ends.push_back(query_ends.back() + std::int32_t(chunk));
            key_ends.push_back(key_ends.back() + std::int32_t(end));
        }
        const std::int64_t keys = key_ends.back();
        const auto status = attune::variable_length_attention(
            context, {query.data(), {3 * chunk, 4, 64}}, {key.data(), {keys, 2, 64}}, {value.data(), {keys, 2, 64}},
            {query_ends.data(), {4}}, {key_ends.data(), {4}}, {out.data(), {3 * chunk, 4, 64}},
            {.causal = attune::Causal::bottom_right, .invariant = true});
        INFO(status.message());
        REQUIRE(status.ok());
        bool same = true;
        for (int n = 0; n < 3; n++)
            for (std::int64_t i = 0; i < chunk; i++)
                for (std::int64_t h = 0; h < 4; h++)
                    for (std::int64_t d = 0; d < 64; d++)
                        same = same && same_bits(out[std::size_t(((n * chunk + i) * 4 + h) * 64 + d)],
                                                 whole.out(0, h, ends[n] - chunk + i, d));
        INFO("chunk " << chunk);
        CHECK(same);
    }
}

TEST_CASE("invariant: plans do not depend on queries and keys", "[runtime][invariant][plan]") {
    attune::Context context;
    attune::SdpaProblem p{.query_heads = 8, .key_heads = 2, .head_dim = 64, .value_dim = 64, .invariant = true};
    attune::Plan first, other;
    REQUIRE(attune::plan_sdpa(context, p, first).ok());
    for (const auto &[queries, keys] : {std::pair(1, 1), {1, 100000}, {7, 300}, {65, 65}, {1000, 1000}}) {
        p.queries = queries, p.keys = keys;
        REQUIRE(attune::plan_sdpa(context, p, other).ok());
        CHECK(other.variant == first.variant);
        CHECK(other.variant_of_last_queries.empty());
    }
}
