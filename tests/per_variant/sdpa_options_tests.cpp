// SPDX-License-Identifier: MIT
// Every variant that takes them against the reference: boolean masks, biases, ALiBi, softcap and sinks, alone and together.
#include "tests/support/option_sets.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
void check_options(const std::vector<SetOption> &options) {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", knows_scores, [&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v);
        unsigned seed = 2000;
        // One row over KV blocks, less than a tile and a KV block, over tiles and KV blocks.
        for (const auto &[queries, keys] : {std::pair(std::int64_t(1), kv_block + 5), {6, 9}, {tile + 1, kv_block + 3}})
            for (const SetOption &set_option : options) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .seed = seed++};
                if (queries * keys > 2000) c.query_heads = 2, c.key_heads = 1;  // for time
                set_option(c);
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}
}  // namespace

TEST_CASE("variants: boolean masks of every shape", "[sdpa][per_variant]") { check_options(option_sets::boolean_masks()); }
TEST_CASE("variants: biases of every shape, some masking", "[sdpa][per_variant]") { check_options(option_sets::biases()); }
TEST_CASE("variants: ALiBi by standard and given slopes", "[sdpa][per_variant]") { check_options(option_sets::alibis()); }
TEST_CASE("variants: softcap and sinks", "[sdpa][per_variant]") { check_options(option_sets::caps_and_sinks()); }
TEST_CASE("variants: every option of the score together", "[sdpa][per_variant]") { check_options(option_sets::everything()); }

TEST_CASE("variants: rows without keys keep their sink", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", knows_scores, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        for (const auto &[queries, keys] : {std::pair(1, kv_block_of(v) + 1), {tile_of(v) + 1, 19}})
            for (int way : {0, 1, 2}) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = 2,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .sinks = true};
                if (way == 0) c.valid_lens = {0, 0};
                if (way == 1) c.mask = "1111";
                if (way == 2) c.bias = "1111", c.hole = option_sets::minus_infinity;
                SdpaArrays<T> a(c);
                a.mask.each([](bool &x) { x = false; });
                a.bias.each([](T &x) { x = T(option_sets::minus_infinity); });
                for (Array<T> *array : {&a.query, &a.key, &a.value})
                    array->each([](T &x) { x = std::numeric_limits<T>::quiet_NaN(); });
                const auto status = a.run(context, v.name);
                INFO(describe(c) << ' ' << status.message());
                CHECK(status.ok());
                bool right = true;
                a.out.each([&](T &x) { right = right && x == 0; });
                const auto sinks = a.sinks.values();
                for (std::int64_t b = 0; b < c.batch; b++)
                    for (std::int64_t h = 0; h < c.query_heads; h++)
                        for (std::int64_t i = 0; i < c.queries; i++)
                            right = right && std::abs(a.lse(b, h, i) - sinks[std::size_t(h)]) <= 1e-6;
                CHECK(right);
            }
    });
}

TEST_CASE("variants: a kind that lacks an option refuses it by name", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    const auto refuse = [&](const std::vector<std::string_view> &kinds, const SetOption &set_option) {
        for_each_variant("sdpa", kinds, [&](const attune::VariantInfo &v, auto zero) {
            const auto [head_dim, value_dim] = head_size(v);
            SdpaCase c{.head_dim = head_dim, .value_dim = value_dim};
            set_option(c);
            SdpaArrays<decltype(zero)> a(c);
            const auto status = a.run(context, v.name);
            INFO(describe(c) << ' ' << status.message());
            CHECK(status.code() == attune::StatusCode::invalid_argument);
            CHECK(status.message().rfind("variant:", 0) == 0);
            CHECK(status.message().find(v.name) != std::string::npos);
            CHECK(a.out.untouched());
            CHECK(a.lse.untouched());
        });
    };
    for (const SetOption &set_option :
         {SetOption([](SdpaCase &c) { c.softcap = 3; }), SetOption([](SdpaCase &c) { c.bias = "j"; }),
          SetOption([](SdpaCase &c) { c.alibi = Alibi::standard; }), SetOption([](SdpaCase &c) { c.mask = "ij"; }),
          SetOption([](SdpaCase &c) { c.sinks = true; })})
        refuse({"plain"}, set_option);
    refuse({"plain", "scored"}, [](SdpaCase &c) { c.dropout.probability = 0.5; });
    refuse(writes_weights, [](SdpaCase &) {});  // a call without weights
}
