// SPDX-License-Identifier: MIT
// Every variant against the reference under every mask: causal, offsets, windows, lengths, and their combinations.
#include "tests/support/option_sets.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
void check_masks(const std::vector<SetOption> &masks) {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v);
        unsigned seed = 1000;
        // More keys than queries, over KV blocks; more queries than keys; one query; less than a tile and a KV block.
        for (const auto &[queries, keys] : {std::pair(tile + 1, 2 * kv_block + 3),
                                            {std::max(2 * tile, 40 + tile), std::int64_t(37)},
                                            {std::int64_t(1), kv_block + 5},
                                            {std::int64_t(6), std::int64_t(9)}})
            for (const SetOption &set_mask : masks) {
                SdpaCase c{.queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim, .seed = seed++};
                if (keys > 1000 || v.schedule == "root") c.query_heads = c.key_heads = 1;  // for time
                set_mask(c);
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}
}  // namespace

TEST_CASE("variants: causal masks and offsets", "[sdpa][per_variant]") { check_masks(option_sets::causal_masks()); }
TEST_CASE("variants: windows", "[sdpa][per_variant]") { check_masks(option_sets::window_masks()); }
TEST_CASE("variants: valid lengths, alone and with other masks", "[sdpa][per_variant]") {
    check_masks(option_sets::length_masks());
}
TEST_CASE("variants: a KV block that ends at a tile's first query, which does not see all of it", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v);
        if (kv_block > 256) return;  // for time
        for (const std::int64_t offset : {std::int64_t(-2), -tile - 1}) {
            SdpaCase c{.batch = 1, .query_heads = 1, .key_heads = 1, .queries = kv_block + tile, .keys = kv_block + 3};
            c.head_dim = head_dim, c.value_dim = value_dim;
            c.causal = attune::Causal::offset, c.offset = offset;
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}
