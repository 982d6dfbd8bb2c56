// Every variant against the reference under every mask: causal, offsets, windows, lengths, and their combinations.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal;

namespace {
constexpr std::int64_t huge = std::int64_t(1) << 61;
constexpr std::int32_t most = 2147483647;

// What a mask sets; sizes are set before it.
using SetMask = std::function<void(SdpaCase &)>;

std::vector<SetMask> causal_masks() {
    return {
        [](SdpaCase &) {},
        [](SdpaCase &c) { c.causal = Causal::top_left; },
        [](SdpaCase &c) { c.causal = Causal::bottom_right; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = 0; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = c.keys / 2; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -2; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -c.queries; },  // no query has a key
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = huge; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -huge; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = most; },
        [](SdpaCase &c) { c.causal = Causal::offset, c.offset = -std::int64_t(most) - 1; },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {-1, std::int32_t(c.keys / 3)};
        },
        [](SdpaCase &c) {
            c.causal = Causal::offset, c.offsets = {most, -most - 1};
        },
        [](SdpaCase &c) { c.causal = Causal::bottom_right, c.offset = 1; },
    };
}
std::vector<SetMask> window_masks() {
    return {
        [](SdpaCase &c) {
            c.window = {0, 0};
        },
        [](SdpaCase &c) {
            c.window = {3, 0};
        },
        [](SdpaCase &c) {
            c.window = {0, 5};
        },
        [](SdpaCase &c) {
            c.window = {-1, 2};
        },
        [](SdpaCase &c) {
            c.window = {2, -1};
        },
        [](SdpaCase &c) {
            c.window = {huge, huge};
        },
        [](SdpaCase &c) {
            c.window = {c.keys / 3, c.keys / 4};
        },
        [](SdpaCase &c) {
            c.window = {1, 1}, c.offset = c.keys - 2;
        },
        [](SdpaCase &c) {
            c.window = {most, 0}, c.offset = most;
        },
        [](SdpaCase &c) {
            c.window = {2, 2}, c.offsets = {-3, std::int32_t(c.keys)};
        },
        [](SdpaCase &c) {
            c.window = {4, 4}, c.offset = huge;
        },
        [](SdpaCase &c) {
            c.window = {4, -1}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) {
            c.window = {4, -1}, c.causal = Causal::top_left;
        },
        [](SdpaCase &c) {
            c.window = {1, 3}, c.causal = Causal::bottom_right;
        },
    };
}
std::vector<std::int32_t> lens_per_query(const SdpaCase &c) {
    std::vector<std::int32_t> lens;
    for (std::int64_t n = 0; n < c.batch * c.queries; n++) lens.push_back(std::int32_t(n * 7919 % (c.keys + 1)));
    lens.front() = std::int32_t(c.keys), lens.back() = 0;
    return lens;
}
std::vector<SetMask> length_masks() {
    return {
        [](SdpaCase &c) {
            c.valid_lens = {std::int32_t(c.keys), 1};
        },
        [](SdpaCase &c) {
            c.valid_lens = {0, std::int32_t((c.keys + 1) / 2)};
        },
        [](SdpaCase &c) {
            c.valid_lens = {0, 0};
        },
        [](SdpaCase &c) { c.valid_lens = lens_per_query(c); },
        [](SdpaCase &c) {
            c.valid_lens = {std::int32_t(c.keys - 1), std::int32_t(c.keys / 2)}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) { c.valid_lens = lens_per_query(c), c.causal = Causal::top_left; },
        [](SdpaCase &c) {
            c.valid_lens = {3, std::int32_t(c.keys)}, c.window = {5, 5};
        },
        [](SdpaCase &c) {
            c.valid_lens = lens_per_query(c), c.window = {c.keys / 3, 2}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) {
            c.valid_lens = lens_per_query(c), c.window = {c.keys / 2, -1}, c.causal = Causal::offset;
            c.offsets = {std::int32_t(c.keys / 2), -1};
        },
    };
}

void check_masks(const std::vector<SetMask> &masks) {
    attune::Context context({.threads = 2});
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v), chunk = chunk_of(v);
        unsigned seed = 1000;
        // More keys than queries, over chunks; more queries than keys; one query; less than a tile and a chunk.
        for (const auto &[queries, keys] : {std::pair(tile + 1, 2 * chunk + 3),
                                            {std::max(2 * tile, 40 + tile), std::int64_t(37)},
                                            {std::int64_t(1), chunk + 5},
                                            {std::int64_t(6), std::int64_t(9)}})
            for (const SetMask &set_mask : masks) {
                SdpaCase c{.queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim, .seed = seed++};
                if (keys > 1000 || v.schedule == "root") c.query_heads = c.key_heads = 1;  // for time
                set_mask(c);
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}
}  // namespace

TEST_CASE("variants: causal masks and offsets", "[sdpa][per_variant]") { check_masks(causal_masks()); }
TEST_CASE("variants: windows", "[sdpa][per_variant]") { check_masks(window_masks()); }
TEST_CASE("variants: valid lengths, alone and with other masks", "[sdpa][per_variant]") { check_masks(length_masks()); }
