// SPDX-License-Identifier: MIT
// Awkward calls of attention: sizes, options and data at which kernels are likely to be wrong.
#include "check_parts.h"
#include "tests/support/option_sets.h"
#include <cmath>

namespace attune::tune {
namespace {

using attune::Causal;
using attune_test::Layout;
using attune_test::SdpaCase;
using attune_test::SetOption;

struct Cases {
    const attune::VariantInfo &variant;
    unsigned seed;
    std::vector<SdpaCase> all = {};

    // Adds a case of two entries, and four query heads on two key heads, or on four where groups are not computed in place.
    // Where KV blocks are so long that many queries would cost the reference seconds, it has few queries: such schedules fill
    // their tiles with the heads of a group.
    void add(std::int64_t queries, std::int64_t keys, const SetOption &set = {}) {
        const auto [head_dim, value_dim] = attune_test::head_size(variant);
        const std::int64_t most = variant.schedule == "decode" ? 4'000'000 : 60'000'000;
        const std::int64_t of_query = 2 * 4 * std::max<std::int64_t>(keys, 1) * (head_dim + value_dim);
        queries = std::clamp<std::int64_t>(most / of_query, 1, queries);
        SdpaCase c{.query_heads = 4,
                   .key_heads = 4 / attune_test::group_in_place(variant),
                   .queries = queries,
                   .keys = keys,
                   .head_dim = head_dim,
                   .value_dim = value_dim,
                   .seed = seed++};
        if (set) set(c);
        if (variant.kind == "weights" && !c.weights) c.weights = attune::WeightsMode::probabilities;
        all.push_back(c);
    }
};

void add_sizes(Cases &cases, std::int64_t tile, std::int64_t kv_block, std::int64_t key_tile) {
    cases.add(1, 1);
    cases.add(1, kv_block + 1);
    for (const std::int64_t off : {-1, 0, 1})
        if (tile + off > 0) cases.add(tile + off, std::max<std::int64_t>(1, kv_block + off));
    cases.add(2 * tile + 1, 2 * kv_block + 3);
    cases.add(37, 61);
    cases.add(13, 3 * kv_block + 5);
    cases.add(5, key_tile + 1);
    if (cases.variant.op != "additive_separable") cases.add(3, 0);  // without keys additive scores have one form
    // Enough work for all threads, however small the tiles are.
    cases.add(tile + 1, 2 * kv_block + 3, [](SdpaCase &c) {
        const std::int64_t entry = c.query_heads * c.queries * c.keys * (c.head_dim + c.value_dim);
        c.batch = std::max<std::int64_t>(2, 4'000'000 / entry + 1);
    });
}

void add_masks(Cases &cases, std::int64_t tile, std::int64_t kv_block) {
    const auto length = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    cases.add(tile + 1, kv_block + 1, [](SdpaCase &c) { c.causal = Causal::top_left; });
    cases.add(tile + 1, 2 * kv_block - 1, [](SdpaCase &c) { c.causal = Causal::bottom_right; });
    cases.add(kv_block + tile + 1, kv_block + 1, [](SdpaCase &c) { c.causal = Causal::bottom_right; });  // rows without keys
    cases.add(tile + 5, kv_block + 5, [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -2; });
    // A window that hides keys, in which kernels map groups of query heads themselves.
    cases.add(tile + 1, kv_block + 3, [](SdpaCase &c) { c.window = {0, 0}, c.key_heads = 2; });
    cases.add(tile + 1, 2 * kv_block + 3, [](SdpaCase &c) { c.window = {c.keys / 3, 2}; });
    cases.add(tile + 1, 2 * kv_block + 3, [](SdpaCase &c) { c.window = {4, -1}, c.causal = Causal::bottom_right; });
    cases.add(tile + 1, 2 * kv_block + 3, [=](SdpaCase &c) { c.valid_lens = {0, length(kv_block + 1)}; });
    cases.add(tile + 1, 2 * kv_block + 3, [=](SdpaCase &c) {
        c.valid_lens = {length(2 * kv_block - 1), length(kv_block - 1)};
    });
    cases.add(tile + 2, 2 * kv_block + 3, [](SdpaCase &c) { c.valid_lens = attune_test::option_sets::lens_per_query(c); });
}

void add_layouts(Cases &cases, std::int64_t tile, std::int64_t kv_block) {
    const auto layouts = [](Layout query, Layout key, Layout value, Layout out) {
        return [=](SdpaCase &c) {
            c.query_layout = query, c.key_layout = key, c.value_layout = value, c.out_layout = out;
            c.strided_lse = out != Layout::shifted;
        };
    };
    cases.add(tile + 1, kv_block + 3, layouts(Layout::bshd, Layout::padded, Layout::fused, Layout::bshd));
    cases.add(tile + 1, kv_block + 3, layouts(Layout::fused, Layout::reversed, Layout::broadcast, Layout::padded));
    cases.add(tile + 1, kv_block + 3, layouts(Layout::shifted, Layout::shifted, Layout::shifted, Layout::shifted));
}

void add_heads(Cases &cases, std::int64_t tile, std::int64_t kv_block) {
    for (const auto &[query_heads, key_heads] : {std::pair(8, 1), {3, 1}, {6, 2}, {5, 1}, {5, 5}})
        for (const std::int64_t queries : {std::int64_t(1), tile + 1})
            cases.add(queries, kv_block + 7, [query_heads = query_heads, key_heads = key_heads](SdpaCase &c) {
                c.batch = 1, c.query_heads = query_heads, c.key_heads = key_heads;
            });
    if (cases.variant.head_dim != 0) return;
    for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {17, 40}, {40, 17}, {1, 75}, {96, 80}, {128, 128}})
        cases.add(tile + 1, kv_block + 3, [head_dim = head_dim, value_dim = value_dim](SdpaCase &c) {
            c.batch = 1, c.head_dim = head_dim, c.value_dim = value_dim;
        });
}

// Adds cases in which the largest score of a row moves between KV blocks, and in which scores are far from 0 and nearly tied.
void add_scores(Cases &cases, std::int64_t tile, std::int64_t kv_block) {
    cases.add(tile + 1, 3 * kv_block + 1, [](SdpaCase &c) { c.scale = 1.0; });
    cases.add(tile + 1, 3 * kv_block + 1, [](SdpaCase &c) { c.scale = -0.3; });
    cases.add(tile + 1, 2 * kv_block + 3, [](SdpaCase &c) {
        c.scale = 1e3, c.key_noise = 3 / (1e3 * c.spread * std::sqrt(static_cast<double>(c.head_dim)));
    });
}

void add_options(Cases &cases, std::int64_t tile, std::int64_t kv_block) {
    using namespace attune_test::option_sets;
    const auto add_all = [&](const std::vector<SetOption> &sets) {
        for (const SetOption &set : sets) cases.add(tile + 1, kv_block + 3, set);
    };
    add_all(everything());
    add_all({[](SdpaCase &c) { c.bias = "bhij", c.hole = minus_infinity; },
             [](SdpaCase &c) { c.bias = "b1i1", c.mask = "j", c.strided_masks = true; }, [](SdpaCase &c) { c.mask = "b1ij"; },
             [](SdpaCase &c) { c.mask = "1hi1", c.causal = Causal::top_left; },
             [](SdpaCase &c) { c.alibi = attune_test::Alibi::standard, c.causal = Causal::bottom_right; },
             [](SdpaCase &c) { c.alibi = attune_test::Alibi::per_batch, c.strided_masks = true; },
             [](SdpaCase &c) { c.softcap = 30; },
             [](SdpaCase &c) {
                 c.softcap = 5, c.window = {9, 3};
             },
             [](SdpaCase &c) { c.sinks = true; },
             [](SdpaCase &c) {
                 c.sinks = true, c.valid_lens = {0, static_cast<std::int32_t>(c.keys / 2)};
             }});
    if (cases.variant.kind != "training") return;
    add_all({[](SdpaCase &c) {
                 c.dropout = {0.3, 7, 0};
             },
             [](SdpaCase &c) {
                 c.dropout = {0.3, 1ull << 40 | 5, 3}, c.bias = "bhij", c.causal = Causal::bottom_right;
             },
             [](SdpaCase &c) {
                 c.dropout = {0.9, 11, 0}, c.sinks = true, c.query_heads = 6, c.key_heads = 2;
             }});
}

}  // namespace

std::vector<SdpaCase> awkward_attention(const attune::VariantInfo &v, unsigned seed) {
    const std::int64_t tile = attune_test::tile_of(v), kv_block = attune_test::kv_block_of(v);
    Cases cases{v, seed};
    add_sizes(cases, tile, kv_block, attune_test::parameter_of(v, "key_tile", 4));
    add_masks(cases, tile, kv_block);
    add_layouts(cases, tile, kv_block);
    add_heads(cases, tile, kv_block);
    add_scores(cases, tile, kv_block);
    if (v.kind != "plain" && !v.kind.empty()) add_options(cases, tile, kv_block);
    if (v.kind == "weights")
        for (const auto mode : {attune::WeightsMode::scaled, attune::WeightsMode::capped, attune::WeightsMode::masked})
            cases.add(tile + 1, kv_block + 3, [mode](SdpaCase &c) {
                c.weights = mode, c.softcap = 5, c.bias = "hij", c.causal = Causal::bottom_right;
            });
    return cases.all;
}

}  // namespace attune::tune
