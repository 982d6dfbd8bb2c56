// SPDX-License-Identifier: MIT
// Every variant of the gradients against the reference under every mask and option of the score, and dropout.
#include "tests/support/backward_grid.h"
#include "tests/support/option_sets.h"
#include <limits>

using namespace attune_test;
using attune::Causal;

namespace {
// Checks each option at sizes of one row, of less than a tile, and over tiles, in turn: at all of them over the head sizes and
// types.
void check_options(const std::vector<SetOption> &options, unsigned seed) {
    attune::Context context(in_fenced_scratch());
    std::size_t turn = 0;
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{66, 67}, {6, 9}, {1, 70}, {37, 5}};
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>()) {
            std::size_t next = turn++;
            for (const SetOption &set_option : options) {
                SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2}, .grad_lse = seed % 3 == 0};
                const auto &[queries, keys] = sizes[next++ % sizes.size()];
                c.forward.queries = queries, c.forward.keys = keys, c.forward.seed = seed++;
                c.forward.head_dim = head_dim, c.forward.value_dim = value_dim;
                if (queries * keys > 1000) c.forward.query_heads = 2, c.forward.key_heads = 1;
                set_option(c.forward);
                check_backward<T>(context, c);
            }
        }
    });
}
std::vector<SetOption> dropouts() {
    std::vector<SetOption> all;
    for (const attune::Dropout &dropout : {attune::Dropout{0.1, 1, 0},
                                           {0.5, 0xfedcba9876543210ull, 3},
                                           {0.9, 2, 0xffffffffu},
                                           {1e-12, 3, 0},
                                           {1, 4, 0},
                                           {0.3, 5, 1, 7, 4, 3, 1000},
                                           {0.4, 6, 1, 2, 3, 1, 500}}) {
        all.push_back([=](SdpaCase &c) { c.dropout = dropout; });
        all.push_back([=](SdpaCase &c) {
            c.dropout = dropout, c.softcap = 5, c.bias = "ij", c.mask = "b1ij", c.alibi = Alibi::standard, c.sinks = true;
            c.causal = Causal::bottom_right, c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)};
        });
    }
    return all;
}
}  // namespace

TEST_CASE("gradients by variant: causal masks and offsets", "[sdpa_backward][per_variant]") {
    check_options(option_sets::causal_masks(), 1000);
}
TEST_CASE("gradients by variant: windows", "[sdpa_backward][per_variant]") { check_options(option_sets::window_masks(), 1200); }
TEST_CASE("gradients by variant: valid lengths, alone and with other masks", "[sdpa_backward][per_variant]") {
    check_options(option_sets::length_masks(), 1400);
}
TEST_CASE("gradients by variant: boolean masks of every shape", "[sdpa_backward][per_variant]") {
    check_options(option_sets::boolean_masks(), 1600);
}
TEST_CASE("gradients by variant: biases of every shape, some masking", "[sdpa_backward][per_variant]") {
    check_options(option_sets::biases(), 1800);
}
TEST_CASE("gradients by variant: ALiBi by standard and given slopes", "[sdpa_backward][per_variant]") {
    check_options(option_sets::alibis(), 2000);
}
TEST_CASE("gradients by variant: softcap and sinks", "[sdpa_backward][per_variant]") {
    check_options(option_sets::caps_and_sinks(), 2200);
}
TEST_CASE("gradients by variant: every option of the score together", "[sdpa_backward][per_variant]") {
    check_options(option_sets::everything(), 2400);
}
TEST_CASE("gradients by variant: dropout, alone and with every option", "[sdpa_backward][dropout][per_variant]") {
    check_options(dropouts(), 2600);
}

TEST_CASE("gradients by variant: cache lengths are valid lengths and offsets", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    const std::int32_t older[] = {3, 21};
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        SdpaBackwardCase c{.forward = {.queries = 9, .keys = 31, .causal = Causal::offset, .offsets = {3, 21}}};
        c.forward.valid_lens = {12, 30};
        SdpaBackwardArrays<T> lens(c), cache(c);
        REQUIRE(lens.run_forward(context).ok());
        REQUIRE(cache.run_forward(context).ok());
        REQUIRE(lens.run(context).ok());
        attune::SdpaOptions options = cache.options();
        options.valid_lens = options.offsets = {}, options.cache_lens = attune::ConstView(older, {2});
        const auto status = attune::scaled_dot_product_attention_backward(context, cache.forward.query.view(),
                                                                          cache.forward.key.view(), cache.forward.value.view(),
                                                                          cache.results(), cache.gradients(), options);
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(lens.bits() == cache.bits());
    });
}

// The tiles compute this gradient where every tile of keys is full and all steps only add to the score.
TEST_CASE("gradients by variant: a bias for each pair where keys fill their tiles", "[sdpa_backward][per_variant]") {
    attune::Context one({.threads = 1}), seven({.threads = 7});
    unsigned seed = 3000;
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        for (const std::int64_t queries : {1, 70, 128})
            for (const bool masked : {false, true}) {
                SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = queries, .keys = 128}};
                c.forward.head_dim = 17, c.forward.value_dim = 21, c.forward.bias = "bhij", c.forward.seed = seed++;
                if (masked) {
                    c.forward.hole = -std::numeric_limits<double>::infinity(), c.forward.strided_masks = true;
                    c.forward.causal = Causal::bottom_right, c.forward.window = {40, -1}, c.forward.valid_lens = {128, 50};
                }
                check_backward<T>(one, c);
                check_dispatched<T>(seven, c);
                SdpaBackwardArrays<T> clean(c);
                INFO(describe(c));
                REQUIRE(clean.run_forward(one).ok());
                auto all = clean;
                REQUIRE(all.run(one).ok());
                for (const unsigned wanted : {want_bias + 0u, want_bias | want_query, want_bias | want_key, want_value + 0u}) {
                    auto some = clean;
                    INFO("wanted " << wanted);
                    CHECK(some.run(wanted & want_key ? one : seven, "", wanted).ok());
                    CHECK(some.bits(wanted) == all.bits(wanted));
                }
            }
    });
}
