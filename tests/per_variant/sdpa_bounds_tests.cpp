// SPDX-License-Identifier: MIT
// Every variant on arrays that end, or begin, at a protected page: a crash shows one element read or written beyond them.
#include "tests/support/fenced.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
template<typename T> void check_fenced(attune::Context &context, const SdpaCase &c, std::string_view variant, bool at_end) {
    SdpaArrays<T> a(c);
    const auto status = a.run(context, variant);
    Fenced<T> query(a.query.values(), at_end), key(a.key.values(), at_end), value(a.value.values(), at_end);
    Fenced<T> out(std::vector<T>(a.out.values().size()), at_end);
    Fenced<Sum<T>> lse(std::vector<Sum<T>>(a.lse.values().size()), at_end);
    Fenced<T> bias(a.bias.values(), at_end), weights(std::vector<T>(a.weights.values().size()), at_end);
    Fenced<float> slopes(a.slopes.values(), at_end), sinks(a.sinks.values(), at_end);
    const auto mask_values = a.mask.values();
    Fenced<unsigned char> mask(std::vector<unsigned char>(mask_values.begin(), mask_values.end()), at_end);
    Fenced<std::int32_t> lens(c.valid_lens, at_end), offsets(c.offsets, at_end);
    const auto at = [](attune::View view, auto &fenced) { return view.data = fenced.data(), view; };
    attune::SdpaOptions options = a.options(variant);
    options.lse = at(a.lse.view(), lse);
    const auto move = [](auto &view, auto &fenced) {
        if (view.given()) view.data = fenced.data();
    };
    move(options.valid_lens, lens), move(options.offsets, offsets), move(options.bias, bias), move(options.mask, mask);
    move(options.alibi_slopes, slopes), move(options.sinks, sinks), move(options.weights, weights);
    INFO(describe(c) << (at_end ? " at the end of a page" : " at the start of a page") << ' ' << status.message());
    CHECK(status.ok());
    CHECK(attune::scaled_dot_product_attention(context, at(a.query.view(), query), at(a.key.view(), key),
                                               at(a.value.view(), value), at(a.out.view(), out), options)
              .ok());
    CHECK(same_bits(out.values(), a.out.values()));
    CHECK(same_bits(lse.values(), a.lse.values()));
    CHECK(same_bits(weights.values(), a.weights.values()));
}
}  // namespace

TEST_CASE("variants: nothing is read or written beyond the arrays", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant_and_head_size(
        "sdpa", {"plain", "scored", "training", "weights"}, [&](const attune::VariantInfo &v, auto zero) {
            unsigned seed = 1;
            for (const auto &[head_dim, value_dim] : head_sizes(v))
                for (const auto &[queries, keys] : {std::pair(1, 1), {1, kv_block_of(v) + 1}, {tile_of(v) + 1, 3}})
                    for (bool at_end : {true, false}) {
                        SdpaCase c{.batch = 1,
                                   .query_heads = 2,
                                   .key_heads = 2 / group_in_place(v),
                                   .queries = queries,
                                   .keys = keys,
                                   .head_dim = head_dim,
                                   .value_dim = value_dim,
                                   .seed = seed++};
                        if (seed % 2) c.causal = attune::Causal::offset, c.offsets = {2};
                        if (seed % 3 == 0) c.valid_lens.assign(std::size_t(queries), std::int32_t(keys));
                        if (v.kind != "plain") {
                            constexpr const char *shapes[] = {"bhij", "j", "i1", "1hij", "1111"};
                            c.bias = shapes[seed % 5], c.mask = shapes[seed / 2 % 5], c.sinks = true, c.alibi = Alibi(seed % 4);
                        }
                        if (v.kind == "weights") c.weights = attune::WeightsMode(seed % 4);
                        if (v.kind == "training") c.dropout = {0.25, seed, 0};
                        check_fenced<decltype(zero)>(context, c, v.name, at_end);
                    }
        });
}
