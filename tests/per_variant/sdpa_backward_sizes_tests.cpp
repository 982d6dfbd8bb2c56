// SPDX-License-Identifier: MIT
// Every variant of the gradients against the reference at awkward sizes: around tiles, head sizes, head groups, no rows.
#include "tests/support/backward_grid.h"

using namespace attune_test;
using attune::Causal;

namespace {
// Sizes around the sides of a tile, and primes.
std::vector<std::int64_t> sizes() {
    std::set<std::int64_t> all = {1, 2, 13, 37};
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op == backward_op)
            for (const std::int64_t side : {parameter_of(v, "tile_q", 64), parameter_of(v, "kv_block", 64)})
                all.insert({side - 1, side, side + 1, 2 * side + 3});
    all.erase(all.begin(), all.lower_bound(1)), all.erase(all.upper_bound(150), all.end());
    return {all.begin(), all.end()};
}
}  // namespace

TEST_CASE("gradients by variant: numbers of queries and keys around tiles", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        unsigned seed = 100;
        const auto all = sizes();
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>())
            for (std::size_t round : {0, 3})
                for (std::size_t n = 0; n < all.size(); n++) {
                    SdpaBackwardCase c{.forward = {.batch = 1, .queries = all[n], .keys = all[(n + round) % all.size()]}};
                    c.forward.head_dim = head_dim, c.forward.value_dim = value_dim, c.forward.seed = seed++;
                    c.forward.query_heads = c.forward.key_heads = c.forward.queries * c.forward.keys > 5000 ? 1 : 2;
                    c.forward.causal = Causal(seed % 3), c.grad_lse = seed % 4 == 0;
                    check_backward<T>(context, c);
                }
    });
}

TEST_CASE("gradients by variant: head sizes of key and value", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        unsigned seed = 200;
        for (const auto &[head_dim, value_dim] :
             {std::pair(1, 1), {2, 3}, {3, 2}, {16, 16}, {40, 17}, {75, 1}, {1, 75}, {80, 80}, {96, 130}})
            for (std::int64_t queries : {1, 66}) {
                SdpaBackwardCase c{.forward = {.batch = 1, .queries = queries, .keys = 35}, .grad_lse = queries == 1};
                c.forward.head_dim = head_dim, c.forward.value_dim = value_dim, c.forward.seed = seed++;
                c.forward.causal = Causal::bottom_right;
                check_backward<decltype(zero)>(context, c);
            }
    });
}

TEST_CASE("gradients by variant: groups of query heads", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        unsigned seed = 300;
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>())
            for (const auto &[query_heads, key_heads] : {std::pair(1, 1), {2, 1}, {4, 1}, {6, 2}, {3, 3}})
                for (std::int64_t queries : {1, 33}) {
                    SdpaBackwardCase c{.forward = {.query_heads = query_heads, .key_heads = key_heads, .queries = queries}};
                    c.forward.keys = 29, c.forward.head_dim = head_dim, c.forward.value_dim = value_dim;
                    c.forward.causal = Causal(seed % 3), c.forward.seed = seed++;
                    check_backward<T>(context, c);
                }
    });
}

TEST_CASE("gradients by variant: no queries, no keys, no batch", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>())
            for (const auto &[batch, queries, keys] : {std::tuple(2, 0, 7), {2, 5, 0}, {0, 5, 7}, {2, 0, 0}})
                for (bool scored : {false, true}) {
                    SdpaBackwardCase c{.forward = {.batch = batch, .queries = queries, .keys = keys}, .grad_lse = scored};
                    c.forward.head_dim = head_dim, c.forward.value_dim = value_dim;
                    if (scored) c.forward.sinks = true, c.forward.alibi = Alibi::per_head, c.forward.bias = "b11j";
                    check_backward<T>(context, c);
                }
    });
}

TEST_CASE("gradients by variant: scales, and scores of plus and minus ten thousand", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        unsigned seed = 500;
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>()) {
            SdpaBackwardCase c{.forward = {.queries = 66, .keys = 67, .head_dim = head_dim, .value_dim = value_dim}};
            c.forward.query_heads = c.forward.key_heads = 1, c.forward.causal = Causal::bottom_right;
            for (double scale : {0.0, 1.0, -0.3, 1e-30}) {
                c.forward.scale = scale, c.forward.seed = seed++;
                check_backward<T>(context, c);
            }
            // Scores are large by the scale, or by the data, with differences of a few units. The largest f16 is 65504.
            const double large = std::is_same_v<T, Float16> ? -1e3 : -1e4;
            for (const auto &[scale, spread] : {std::pair(1e3, 1.7), {large, 1.7}, {1 / std::sqrt(double(head_dim)), 170.0}}) {
                c.forward.scale = scale, c.forward.spread = spread, c.forward.seed = seed++;
                c.forward.key_noise = 3 / (std::abs(scale) * spread * std::sqrt(double(head_dim)));
                check_backward<T>(context, c);
            }
        }
    });
}
