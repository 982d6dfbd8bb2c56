// SPDX-License-Identifier: MIT
// Every variant on arrays of every layout; gaps between rows are poisoned, and must not be read into a result or written.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
template<typename F> void for_each_layout(const attune::VariantInfo &v, const F &f) {
    const auto [head_dim, value_dim] = head_size(v);
    for (const auto &[queries, keys] : {std::pair(1, kv_block_of(v) + 1), {tile_of(v) + 1, 35}})
        f(SdpaCase{.query_heads = 4,
                   .key_heads = 4 / group_in_place(v),
                   .queries = queries,
                   .keys = keys,
                   .head_dim = head_dim,
                   .value_dim = value_dim,
                   .causal = attune::Causal::bottom_right,
                   .strided_lse = true});
}
}  // namespace

TEST_CASE("variants: one layout for all arrays", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        for_each_layout(v, [&](SdpaCase c) {
            for (Layout l : {Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed}) {
                c.query_layout = c.key_layout = c.value_layout = c.out_layout = l, c.seed++;
                check_case<decltype(zero)>(context, c, v.name);
            }
        });
    });
}

TEST_CASE("variants: layouts that differ between the arrays", "[sdpa][per_variant]") {
    using L = Layout;
    const L mixes[][4] = {{L::bshd, L::dense, L::padded, L::shifted},
                          {L::broadcast, L::fused, L::bshd, L::reversed},
                          {L::padded, L::broadcast, L::broadcast, L::bshd},
                          {L::shifted, L::padded, L::reversed, L::padded},
                          {L::reversed, L::shifted, L::broadcast, L::fused}};
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        for_each_layout(v, [&](SdpaCase c) {
            for (const auto &mix : mixes) {
                c.query_layout = mix[0], c.key_layout = mix[1], c.value_layout = mix[2], c.out_layout = mix[3], c.seed++;
                check_case<decltype(zero)>(context, c, v.name);
            }
        });
    });
}

TEST_CASE("variants: query, key, value and out in one buffer", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        // (B, S, 4, H, D): slot n of the third axis is query, key, value, out.
        const std::int64_t batch = 2, heads = 2, d = v.head_dim ? v.head_dim : 20, s = tile_of(v) + 3;
        std::vector<T> buffer(std::size_t(batch * s * 4 * heads * d));
        std::mt19937 random(7);
        std::uniform_real_distribution<double> uniform(-1.7, 1.7);
        for (T &x : buffer) x = T(uniform(random));
        const auto slice = [&](int slot) {
            return attune::View(buffer.data() + slot * heads * d, {batch, heads, s, d},
                                {s * 4 * heads * d, d, 4 * heads * d, 1});
        };
        const attune::SdpaOptions options{.variant = v.name};
        const auto reference = sdpa_reference<Reference<T>, T>(slice(0), slice(1), slice(2), options);
        const auto plain = plain_sdpa<T>(slice(0), slice(1), slice(2), options);
        const std::vector<T> before = buffer;
        const auto status = attune::scaled_dot_product_attention(context, slice(0), slice(1), slice(2), slice(3), options);
        INFO(status.message());
        CHECK(status.ok());
        std::vector<T> out;
        const attune::View view = slice(3);
        for (std::int64_t b = 0; b < batch; b++)
            for (std::int64_t h = 0; h < heads; h++)
                for (std::int64_t i = 0; i < s; i++)
                    for (std::int64_t e = 0; e < d; e++) out.push_back(element<T>(view, b, h, i, e));
        const Verdict verdict = judge(reference.out, plain.out, out);
        INFO(verdict.why);
        CHECK(verdict.right);
        bool others_same = true;
        for (std::size_t n = 0; n < buffer.size(); n++)
            if (std::int64_t(n) / (heads * d) % 4 != 3) others_same = others_same && same_bits(buffer[n], before[n]);
        CHECK(others_same);
    });
}

TEST_CASE("variants: lengths and offsets with strides", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase c{.queries = 5,
                   .keys = 40,
                   .head_dim = head_dim,
                   .value_dim = value_dim,
                   .causal = attune::Causal::offset,
                   .offsets = {4, 30},
                   .valid_lens = {40, 33, 1, 0, 17, 8, 9, 10, 39, 38}};
        SdpaArrays<T> dense(c), strided(c);
        CHECK(dense.run(context, v.name).ok());
        // The same numbers, transposed and with gaps; the last stride of lengths and offsets is free.
        Array<std::int32_t> lens({2, 5}, {2, 5}), offsets({2}, {-3});
        int n = 0;
        lens.each([&](std::int32_t &x) { x = c.valid_lens[std::size_t(n++)]; });
        n = 0;
        offsets.each([&](std::int32_t &x) { x = c.offsets[std::size_t(n++)]; });
        auto options = strided.options(v.name);
        options.valid_lens = lens.view(), options.offsets = offsets.view();
        const auto status = attune::scaled_dot_product_attention(context, strided.query.view(), strided.key.view(),
                                                                 strided.value.view(), strided.out.view(), options);
        INFO(status.message());
        CHECK(status.ok());
        CHECK(same_bits(dense.out.values(), strided.out.values()));
        CHECK(defect(dense) == "");
    });
}
