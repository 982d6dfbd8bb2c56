// SPDX-License-Identifier: MIT
// The other scores (docs/conventions.md row 28) in every variant that computes them: cosine, Gaussian, and q^T W k.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal, attune::Score;

namespace {
const std::pair<std::string_view, Score> own_kernels[] = {{"cosine", Score::cosine}, {"gaussian", Score::gaussian}};

std::vector<std::string_view> all_kinds() { return {"plain", "scored", "training", "weights"}; }

// Calls f(variant, T{}, case) for each variant of a score with kernels of its own. Queries and keys are small, so that the
// Gaussian does not give all weight to one key.
template<typename F> void for_each_own(const std::vector<std::string_view> &kinds, const F &f) {
    for (const auto &[op, score] : own_kernels)
        for_each_wide_variant(op, kinds, [&](const attune::VariantInfo &v, auto zero) {
            const auto [head_dim, value_dim] = head_size(v);
            SdpaCase c{
                .query_heads = 4, .key_heads = 2, .head_dim = head_dim, .value_dim = value_dim, .score = score, .spread = 0.7};
            if (v.kind == "weights") c.weights = attune::WeightsMode::probabilities;
            f(v, zero, c);
        });
}
}  // namespace

TEST_CASE("variants: cosine and Gaussian at numbers of queries and keys around tiles and KV blocks",
          "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_own(all_kinds(), [&](const attune::VariantInfo &v, auto zero, SdpaCase c) {
        c.batch = 1, c.query_heads = c.key_heads = 1, c.seed = 5000;
        for (const auto &[queries, keys] : awkward_sizes(v)) {
            c.queries = queries, c.keys = keys, c.seed++;
            c.causal = c.seed % 3 ? Causal::none : Causal::bottom_right;
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}

TEST_CASE("variants: cosine and Gaussian over head sizes, scales, heads and layouts", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_own(all_kinds(), [&](const attune::VariantInfo &v, auto zero, SdpaCase c) {
        c.seed = 5100;
        for (std::int64_t queries : {1, tile_of(v) + 1})
            for (const auto &[head_dim, value_dim] : head_sizes(v))
                for (std::optional<double> scale : {std::optional<double>(), std::optional<double>(6.5)}) {
                    SdpaCase one = c;
                    one.queries = queries, one.keys = kv_block_of(v) + 3, one.head_dim = head_dim, one.value_dim = value_dim;
                    // The cosine of one channel is 1 or -1, which the plain computation has exactly, at any scale.
                    if (head_dim > 1) one.scale = scale;
                    one.seed = c.seed++;
                    if (c.seed % 2) one.valid_lens = {0, kv_block_of(v)}, one.query_heads = 2;
                    if (c.seed % 3 == 0) one.query_layout = one.key_layout = Layout::bshd, one.out_layout = Layout::padded;
                    check_case<decltype(zero)>(context, one, v.name);
                }
    });
}

TEST_CASE("variants: cosine and Gaussian with every option of the score", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_own({"scored", "training", "weights"}, [&](const attune::VariantInfo &v, auto zero, SdpaCase c) {
        c.seed = 5200;
        for (std::int64_t queries : {1, 6, tile_of(v) + 1}) {
            c.queries = queries, c.keys = kv_block_of(v) + 3, c.seed++, c.scale = 3.0;
            c.softcap = 2, c.bias = "ij", c.hole = -std::numeric_limits<double>::infinity(), c.mask = "b1ij", c.sinks = true;
            c.alibi = Alibi::standard, c.causal = Causal::bottom_right;
            if (v.kind == "training") c.dropout = {0.3, 11, 2};
            check_case<decltype(zero)>(context, c, v.name);
        }
    });
}

TEST_CASE("variants: the cosine with a row of zeros is 0", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_wide_variant("cosine", all_kinds(), [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase c{.queries = tile_of(v) + 2, .keys = kv_block_of(v) + 2, .head_dim = head_dim, .value_dim = value_dim};
        c.score = Score::cosine, c.scale = 5.0;
        if (v.kind == "weights") c.weights = attune::WeightsMode::scaled;
        SdpaArrays<T> a(c);
        for (std::int64_t d = 0; d < head_dim; d++) a.query(0, 1, 0, d) = a.key(1, 0, c.keys - 1, d) = a.key(0, 0, 0, d) = 0;
        // Norms of 1e-15 and 1e15 are not taken for 0 and infinity.
        for (std::int64_t d = 0; d < head_dim; d++) a.query(1, 1, 1, d) *= T(1e-15), a.key(1, 1, 1, d) *= T(1e15);
        const auto status = a.run(context, v.name);
        INFO(describe(c) << ' ' << status.message());
        CHECK(status.ok());
        CHECK(defect(a) == "");
    });
}

TEST_CASE("variants: the cosine depends on the directions of rows alone, from 1e-30 to 1e30", "[sdpa][scores][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_wide_variant("cosine", all_kinds(), [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        const int most = std::is_same_v<T, float> ? 100 : 990;
        for (std::int64_t queries : {1, 6, tile_of(v) + 1}) {
            SdpaCase c{.query_heads = 2, .key_heads = 1, .queries = queries, .keys = kv_block_of(v) + 3, .head_dim = head_dim};
            c.value_dim = value_dim, c.score = Score::cosine, c.scale = 4.0, c.seed = unsigned(5400 + queries);
            if (v.kind == "weights") c.weights = attune::WeightsMode::scaled;
            SdpaArrays<T> unit(c), scaled(c);
            std::mt19937 random(c.seed);
            std::uniform_int_distribution<int> power(-most, most);
            for (Array<T> *rows : {&scaled.query, &scaled.key}) {
                const attune::View view = rows->view();
                for (std::int64_t b = 0; b < view.extent[0]; b++)
                    for (std::int64_t h = 0; h < view.extent[1]; h++)
                        for (std::int64_t i = 0; i < view.extent[2]; i++) {
                            const int by = i < 2 ? (i == 0 ? most : -most) : power(random);
                            for (std::int64_t d = 0; d < view.extent[3]; d++)
                                (*rows)(b, h, i, d) = std::ldexp((*rows)(b, h, i, d), by);
                        }
            }
            INFO(describe(c));
            REQUIRE(unit.run(context, v.name).ok());
            REQUIRE(scaled.run(context, v.name).ok());
            CHECK(same_bits(unit.out.values(), scaled.out.values()));
            CHECK(same_bits(unit.lse.values(), scaled.lse.values()));
            if (c.weights) CHECK(same_bits(unit.weights.values(), scaled.weights.values()));
            CHECK(defect(unit) == "");
        }
    });
}

TEST_CASE("variants: a channel that is NaN or infinite makes NaN of every cosine with its row", "[sdpa][scores][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_wide_variant("cosine", all_kinds(), [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        SdpaCase c{
            .batch = 1, .queries = tile_of(v) + 2, .keys = kv_block_of(v) + 3, .head_dim = head_dim, .value_dim = value_dim};
        c.score = Score::cosine, c.seed = 5500;
        if (v.kind == "weights") c.weights = attune::WeightsMode::scaled;
        for (T with : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
            SdpaArrays<T> a(c);
            a.query(0, 0, 1, head_dim - 1) = -with, a.key(0, 1, c.keys - 1, 0) = with;
            INFO(describe(c) << " with " << with);
            REQUIRE(a.run(context, v.name).ok());
            std::int64_t wrong = 0;
            for (std::int64_t h = 0; h < 2; h++)
                for (std::int64_t i = 0; i < c.queries; i++) {
                    wrong += std::isnan(a.lse(0, h, i)) != (h == 1 || i == 1);
                    for (std::int64_t j = 0; c.weights && j < c.keys; j++)
                        wrong += std::isnan(a.weights(0, h, i, j)) != (h == 0 ? i == 1 : j == c.keys - 1);
                }
            CHECK(wrong == 0);
        }
    });
}

TEST_CASE("variants: NaN in masked keys has no effect on cosine and Gaussian", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_own(all_kinds(), [&](const attune::VariantInfo &v, auto zero, SdpaCase c) {
        using T = decltype(zero);
        c.queries = tile_of(v) + 1, c.keys = kv_block_of(v) + 9, c.valid_lens = {5, kv_block_of(v) + 2};
        for (T with : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
            SdpaArrays<T> clean(c), spoiled(c);
            for (std::int64_t h = 0; h < c.key_heads; h++)
                for (std::int64_t d = 0; d < c.head_dim; d++) spoiled.key(0, h, 5, d) = spoiled.key(1, h, c.keys - 1, d) = with;
            CHECK(clean.run(context, v.name).ok());
            CHECK(spoiled.run(context, v.name).ok());
            INFO(describe(c));
            CHECK(same_bits(clean.out.values(), spoiled.out.values()));
            CHECK(same_bits(clean.lse.values(), spoiled.lse.values()));
            if (c.weights) CHECK(same_bits(clean.weights.values(), spoiled.weights.values()));
        }
    });
}

TEST_CASE("variants: q^T W k with widths that differ", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", all_kinds(), [&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 5300;
        for (std::int64_t queries : {1, tile_of(v) + 1})
            for (std::int64_t key_dim : {std::int64_t(7), head_dim + 9}) {
                SdpaCase c{.query_heads = 2,
                           .key_heads = 1,
                           .queries = queries,
                           .keys = kv_block_of(v) + 3,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .key_dim = key_dim,
                           .score = Score::general,
                           .seed = seed++};
                if (seed % 2) c.valid_lens = {0, kv_block_of(v)}, c.key_layout = Layout::padded, c.strided_masks = true;
                if (v.kind != "plain") c.bias = "ij", c.softcap = 4;
                if (v.kind == "training") c.dropout = {0.3, 11, 2};
                if (v.kind == "weights") c.weights = attune::WeightsMode(seed % 4);
                if constexpr (!is_half<decltype(zero)>) check_case<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("variants: scores but the dot product are refused in 16 bits", "[sdpa][scores][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", {"plain"}, [&](const attune::VariantInfo &v, auto zero) {
        if constexpr (is_half<decltype(zero)>)
            for (const auto &[score, name] : {std::pair(Score::general, "Score::general"),
                                              {Score::cosine, "Score::cosine"},
                                              {Score::gaussian, "Score::gaussian"}}) {
                SdpaArrays<decltype(zero)> a({.score = score});
                const auto status = a.run(context);
                INFO(status.message());
                CHECK(status.code() == attune::StatusCode::unsupported);
                CHECK(status.message() == std::string("query: ") + name + " takes f32 or f64, got " + name_of(v.dtype));
                CHECK(a.out.untouched());
            }
    });
}
