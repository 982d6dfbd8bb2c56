// SPDX-License-Identifier: MIT
// Heads that share a key head, whose few queries lie in the same tiles: each has the bits that it has alone.
#include "tests/support/counting_allocator.h"
#include "tests/support/environment.h"
#include "tests/support/held_case.h"
#include "tests/support/planned_problem.h"
#include "tests/support/variant_grid.h"
#include <attune/detail/cost.h>
#include <set>

using namespace attune_test;

namespace {

// Tiles that dispatch counts for a batch entry.
template<typename T> std::int64_t tiles_of_dispatch(const attune::VariantInfo &v, const SdpaCase &c) {
    attune::detail::CostTerms terms{};
    REQUIRE(attune::detail::cost_terms(v.name, problem_of(c, attune::dtype_of<T>()), terms).ok());
    const auto in_vectors = [](std::int64_t n) { return (n + 15) / 16 * 16; };
    return std::int64_t(terms[2]) / (in_vectors(c.head_dim) + in_vectors(c.value_dim));
}

template<typename T>
attune::Status run_head(attune::Context &context, SdpaArrays<T> &a, std::int64_t h, std::string_view variant) {
    const std::int64_t key_head = h / (a.the.query_heads / a.the.key_heads);
    attune::SdpaOptions o = a.options(variant);
    o.lse = part_of(o.lse, 1, h, 1);
    if (o.sinks.given()) o.sinks = part_of(o.sinks, 0, h, 1);
    return attune::scaled_dot_product_attention(context, part_of(a.query.view(), 1, h, 1),
                                                part_of(a.key.view(), 1, key_head, 1), part_of(a.value.view(), 1, key_head, 1),
                                                part_of(a.out.view(), 1, h, 1), o);
}

template<typename T> void check_heads_alone(const SdpaCase &c, std::string_view variant) {
    static attune::Context one({.threads = 1}), two({.threads = 2});
    INFO(describe(c) << " variant " << variant);
    SdpaArrays<T> together(c), alone(c);
    REQUIRE(together.run(two, variant).ok());
    for (std::int64_t h = 0; h < c.query_heads; h++) REQUIRE(run_head(one, alone, h, variant).ok());
    CHECK(together.out.all_written());
    bool same = true;
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t h = 0; h < c.query_heads; h++)
            for (std::int64_t i = 0; i < c.queries; i++) same = same && same_row(together, alone, b, h, i);
    CHECK(same);
}

// Masks of a case, by number. Groups are not folded in a window that hides keys, nor with sinks.
constexpr int folded_kinds = 6;
void set_mask_of_folded(SdpaCase &c, int kind) {
    if (kind == 1) c.causal = attune::Causal::bottom_right, c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)};
    if (kind == 2)
        for (std::int64_t n = 0; n < c.batch * c.queries; n++)
            c.valid_lens.push_back(std::int32_t((37 * n + 5) % (c.keys + 1)));
    if (kind == 3) c.causal = attune::Causal::bottom_right, c.window = {40, 0};
    if (kind == 4) c.sinks = true;
    if (kind == 5) c.causal = attune::Causal::bottom_right, c.window = {std::int32_t(c.keys), 0};
}

// Calls f for one variant of each type and schedule of tiles.
template<typename F> void for_one_of_each_schedule(const F &f) {
    std::set<std::pair<attune::DType, std::string_view>> seen;
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const bool of_plain_tiles = is_of_tiles(v) && v.kind == "plain" && tile_of(v) >= 8;
        if (of_plain_tiles && seen.insert({v.dtype, v.schedule}).second) f(v, zero);
    });
}

}  // namespace

TEST_CASE("folded groups: every variant of tiles gives heads the bits that they have alone", "[runtime][per_variant]") {
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        if (!is_of_tiles(v) || v.kind == "training") return;
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v);
        for (const auto &[group, queries] :
             {std::pair(4, std::max<std::int64_t>(tile / 4, 1)), {3, tile / 2 + 1}, {8, tile + 1}})
            for (int kind = 0; kind < folded_kinds; kind++) {
                SdpaCase c{
                    .batch = 2, .query_heads = 2 * group, .key_heads = 2, .queries = queries, .keys = 2 * kv_block_of(v) + 71};
                c.head_dim = head_dim, c.value_dim = value_dim, c.seed = unsigned(kind + 1);
                set_mask_of_folded(c, kind);
                if (c.sinks && v.kind == "plain") continue;
                const std::int64_t of_a_head = 2 * group * ((queries + tile - 1) / tile),
                                   of_a_group = 2 * ((group * queries + tile - 1) / tile);
                if (tile > 1 && v.kind == "plain") CHECK(tiles_of_dispatch<T>(v, c) == (kind == 3 ? of_a_head : of_a_group));
                check_heads_alone<T>(c, v.name);
            }
    });
}

TEST_CASE("folded groups: a batch that is folded in parts, and rows with strides", "[runtime]") {
    for_one_of_each_schedule([](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        SdpaCase c{.query_heads = 16, .key_heads = 2, .queries = 6, .keys = 90};
        std::tie(c.head_dim, c.value_dim) = head_size(v);
        const std::int64_t entry = 16 * 6 * (c.head_dim + c.value_dim) * std::int64_t(sizeof(T));
        c.batch = 2 * (1 << 20) / entry + 3, c.strided_lse = true, c.causal = attune::Causal::bottom_right;
        for (const Layout layout : {Layout::bshd, Layout::padded, Layout::reversed}) {
            c.query_layout = c.out_layout = layout;
            check_heads_alone<T>(c, v.name);
        }
    });
}

// Most of the scratch of such a call are folded queries and results or, for AMX tiles, copies of keys and values.
TEST_CASE("folded groups: scratch holds the folded rows, within the plan", "[runtime][plan]") {
    for_one_of_each_schedule([](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        SdpaCase c{.batch = 32, .query_heads = 32, .key_heads = 8, .queries = 8, .keys = v.schedule == "amx" ? 1024 : 65};
        std::tie(c.head_dim, c.value_dim) = head_size(v);
        SdpaArrays<T> a(c);
        const Environment force("ATTUNE_FORCE_VARIANT", std::string(v.name));
        attune::SdpaOptions options = a.options({});
        options.lse = {};
        CountingAllocator allocator;
        attune::Context context({.threads = 2, .allocator = allocator.hook()});
        attune::Plan plan;
        REQUIRE(attune::plan_sdpa(context, problem_of(c, attune::dtype_of<T>()), plan).ok());
        CHECK(plan.variant == v.name);
        allocator.limit = plan.workspace_bytes;
        INFO(describe(c) << " plan " << plan.workspace_bytes);
        CHECK(attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(), a.value.view(), a.out.view(), options)
                  .ok());
        const std::size_t entry = 32 * 8 * std::size_t(c.head_dim + c.value_dim) * sizeof(T), part = (1 << 20) / 2;
        CHECK(allocator.peak > std::min(32 * entry, part));
        CHECK(allocator.refused == 0);
    });
}
