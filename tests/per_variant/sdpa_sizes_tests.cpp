// SPDX-License-Identifier: MIT
// Every variant against the reference at awkward sizes: around its tiles and KV blocks, head sizes, groups of query heads.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <iostream>

using namespace attune_test;

TEST_CASE("variants: which run here", "[sdpa][per_variant]") {
    int ran = 0, left_out = 0;
    std::string names;
    for (const attune::VariantInfo &v : attune::variants()) {
        if (v.runs_here) {
            ran++;
            if (v.dispatched && another_stands_for(v))
                std::cout << "LEFT OUT: masks, options, bits, memory: " << v.name << '\n';
            continue;
        }
        left_out++;
        names += "\n  " + std::string(v.name) + ": " + v.why_not;
        CHECK(!v.why_not.empty());
    }
    CHECK(ran > 0);
    if (left_out > 0) WARN(ran << " variants are tested, " << left_out << " are not, this machine cannot run them:" << names);
}

TEST_CASE("variants: numbers of queries and keys around tiles and KV blocks", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant_and_head_size([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 100;
        for (const auto &[queries, keys] : awkward_sizes(v)) {
            SdpaCase c{
                .batch = 1, .queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim, .seed = seed++};
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}

TEST_CASE("variants: causal numbers of queries and keys around tiles and KV blocks", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant_and_head_size([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 200;
        for (const auto &[queries, keys] : awkward_sizes(v)) {
            SdpaCase c{.batch = 1,
                       .queries = queries,
                       .keys = keys,
                       .head_dim = head_dim,
                       .value_dim = value_dim,
                       .causal = seed % 2 ? attune::Causal::top_left : attune::Causal::bottom_right,
                       .seed = seed};
            seed++;
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}

TEST_CASE("variants: head sizes of key and value", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant_and_head_size([&](const attune::VariantInfo &v, auto zero) {
        unsigned seed = 300;
        for (const auto &[head_dim, value_dim] : head_sizes(v))
            for (std::int64_t queries : {std::int64_t(1), std::int64_t(tile_of(v) + 1)}) {
                SdpaCase c{.queries = queries,
                           .keys = kv_block_of(v) + 3,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .causal = attune::Causal::bottom_right,
                           .seed = seed++};
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("variants: groups of query heads", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 400;
        for (const auto &[query_heads, key_heads] : {std::pair(1, 1), {2, 1}, {4, 1}, {8, 2}, {3, 1}, {6, 2}, {8, 1}, {5, 5}})
            for (std::int64_t queries : {1, 3, tile_of(v) + 1}) {
                SdpaCase c{.query_heads = query_heads,
                           .key_heads = key_heads,
                           .queries = queries,
                           .keys = kv_block_of(v) + 7,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .causal = attune::Causal::bottom_right,
                           .seed = seed++};
                if (queries == 3) c.valid_lens = {11, kv_block_of(v) + 2}, c.causal = attune::Causal::none;
                // A window that hides keys, in which groups are not folded.
                if (query_heads % 4 == 0 && queries > 3) c.window = {kv_block_of(v), -1};
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("variants: scales, and scores of plus and minus ten thousand", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 500;
        SdpaCase c{.queries = tile_of(v) + 1,
                   .keys = kv_block_of(v) + 3,
                   .head_dim = head_dim,
                   .value_dim = value_dim,
                   .causal = attune::Causal::bottom_right};
        for (double scale : {0.0, 1.0, -0.3, 1e-30}) {
            c.scale = scale, c.seed = seed++;
            check_case<decltype(zero)>(context, c, v.name);
        }
        // Scores are large by the scale, or by the data (variance about 1e4 squared), with differences of a few units. The
        // plain computation stores scores, and the largest f16 is 65504.
        const double large = std::is_same_v<decltype(zero), Float16> ? -1e3 : -1e4;
        for (const auto &[scale, spread] : {std::pair(1e3, 1.7), {large, 1.7}, {1 / std::sqrt(double(head_dim)), 170.0}}) {
            c.scale = scale, c.spread = spread, c.seed = seed++;
            c.key_noise = 3 / (std::abs(scale) * spread * std::sqrt(double(head_dim)));
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}

TEST_CASE("variants: a score far above the others takes all the weight", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        // Key n is (n + 1) * 1e4 away on a query of ones: the last key wins at scale 1, the first at scale -1. In 16-bit types,
        // where neighbours may be equal or out of range, only those two keys are far away.
        for (double scale : {1.0, -1.0}) {
            SdpaCase c{.queries = tile_of(v) + 1,
                       .keys = 2 * kv_block_of(v) + 3,
                       .head_dim = head_dim,
                       .value_dim = value_dim,
                       .scale = scale};
            SdpaArrays<T> a(c);
            a.query.each([](T &x) { x = 1; });
            const auto distance = [&](std::int64_t j) {
                if (!is_half<T>) return double(j + 1) * 1e4;
                return j == 0 ? -6e4 : j == c.keys - 1 ? 6e4 : 0;
            };
            for (std::int64_t b = 0; b < c.batch; b++)
                for (std::int64_t h = 0; h < c.key_heads; h++)
                    for (std::int64_t j = 0; j < c.keys; j++)
                        for (std::int64_t d = 0; d < head_dim; d++) a.key(b, h, j, d) = d == 0 ? T(distance(j)) : T(0);
            CHECK(a.run(context, v.name).ok());
            bool exact = true;
            const std::int64_t winner = scale > 0 ? c.keys - 1 : 0;
            for (std::int64_t b = 0; b < c.batch; b++)
                for (std::int64_t h = 0; h < c.query_heads; h++)
                    for (std::int64_t i = 0; i < c.queries; i++)
                        for (std::int64_t d = 0; d < value_dim; d++)
                            exact = exact && a.out(b, h, i, d) == a.value(b, h, winner, d);
            INFO(describe(c));
            CHECK(exact);
        }
    });
}
