// SPDX-License-Identifier: MIT
// Additive attention (docs/conventions.md row 27) in every variant that computes it, against the reference.
#include "tests/support/additive_case.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal, attune::WeightsMode;

namespace {
// Forms of the score: pair by pair; and separable, with exponentials of queries and keys, within the range below.
constexpr std::string_view per_pair = "additive", separable = "additive_separable";
constexpr double separable_range = 22;

// Calls f(variant, T{}, case): four query heads on two key heads, a value width other than a power of two.
template<typename F>
void for_each_additive(const std::vector<std::string_view> &ops, const std::vector<std::string_view> &kinds, const F &f) {
    for (std::string_view op : ops)
        for_each_wide_variant(op, kinds, [&](const attune::VariantInfo &v, auto zero) {
            AdditiveCase c{.attention = {.query_heads = 4, .key_heads = 2, .head_dim = 9, .value_dim = 11, .key_dim = 14}};
            if (v.kind == "weights") c.attention.weights = WeightsMode::probabilities;
            f(v, zero, c);
        });
}
// The case with the sizes of a variant for one head size.
AdditiveCase fitted(AdditiveCase c, const attune::VariantInfo &v) {
    if (v.head_dim != 0) c.hidden = c.attention.value_dim = v.head_dim;
    return c;
}
const std::vector<std::string_view> both = {per_pair, separable};
std::vector<std::string_view> all_kinds() { return {"plain", "scored", "training", "weights"}; }
}  // namespace

TEST_CASE("additive variants: numbers of queries and keys around tiles and KV blocks", "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive(both, all_kinds(), [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        c.attention.batch = 1, c.attention.query_heads = c.attention.key_heads = 1, c.hidden = 8;
        c.attention.seed = 6000;
        for (const auto &[queries, keys] : awkward_sizes(v)) {
            c.attention.queries = queries, c.attention.keys = keys, c.attention.seed++;
            c.w_query = c.w_key = c.attention.seed % 2;
            c.attention.causal = c.attention.seed % 3 ? Causal::none : Causal::bottom_right;
            check_case<decltype(zero)>(context, fitted(c, v), v.name);
        }
    });
}

TEST_CASE("additive variants: hidden sizes, value sizes, projections and biases each on and off", "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive(both, all_kinds(), [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        c.attention.seed = 6100, c.attention.queries = 5, c.attention.keys = kv_block_of(v) / 2 + 3;
        for (std::int64_t hidden : {1, 3, 16, 37, 64, 130})
            for (unsigned on = 0; on < 4; on++) {
                const unsigned seed = ++c.attention.seed;
                c.hidden = hidden, c.w_query = on & 1, c.w_key = on & 2;
                c.b_query = c.w_query && seed % 2, c.b_key = c.w_key && seed % 3;
                c.w_score = seed % 5 != 0, c.b_score = seed % 4 ? 0 : 1.5;
                c.attention.value_dim = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 33 : hidden;
                c.attention.scale = seed % 7 ? std::optional<double>() : std::optional<double>(-0.5);
                c.attention.query_layout = seed % 2 ? Layout::bshd : Layout::dense;
                c.attention.key_layout = seed % 2 ? Layout::padded : Layout::fused;
                c.attention.strided_masks = seed % 2;
                check_case<decltype(zero)>(context, fitted(c, v), v.name);
            }
    });
}

TEST_CASE("additive variants: masks of every kind", "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    using Set = std::function<void(SdpaCase &)>;
    const std::vector<Set> structural = {
        [](SdpaCase &c) {
            c.valid_lens = {0, std::int32_t(c.keys / 2)};
        },
        [](SdpaCase &c) { c.valid_lens.assign(std::size_t(2 * c.queries), 3), c.valid_lens[0] = 0; },
        [](SdpaCase &c) { c.causal = Causal::top_left; },
        [](SdpaCase &c) {
            c.window = {2, 1}, c.causal = Causal::bottom_right;
        },
    };
    const std::vector<Set> scored = {
        [](SdpaCase &c) { c.mask = "b1ij"; },
        [](SdpaCase &c) { c.bias = "ij", c.hole = -std::numeric_limits<double>::infinity(); },
        [](SdpaCase &c) { c.softcap = 1.5, c.alibi = Alibi::standard, c.sinks = true, c.mask = "ij", c.bias = "hij"; },
    };
    for_each_additive(both, all_kinds(), [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        std::vector<Set> masks = structural;
        if (v.kind != "plain") masks.insert(masks.end(), scored.begin(), scored.end());
        c.attention.seed = 6200;
        for (std::int64_t queries : {1, 6, tile_of(v) + 1})
            for (const Set &mask : masks) {
                AdditiveCase one = c;
                one.attention.queries = queries, one.attention.keys = kv_block_of(v) + 3,
                one.attention.seed = c.attention.seed++;
                if (queries > 6) one.attention.query_heads = 2, one.attention.key_heads = 1;  // for time
                one.w_query = one.w_key = c.attention.seed % 2;
                if (v.kind == "training") one.attention.dropout = {0.4, 5, 1};
                mask(one.attention);
                check_case<decltype(zero)>(context, fitted(one, v), v.name);
            }
    });
}

TEST_CASE("additive variants: weights in the four modes, and their mean over heads", "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive(both, writes_weights, [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        for (std::int64_t queries : {1, 6, tile_of(v) + 1})
            for (int mode : {0, 1, 2, 3})
                for (bool average : {false, true}) {
                    c.attention.queries = queries, c.attention.keys = kv_block_of(v) + 3, c.attention.seed++;
                    c.attention.weights = WeightsMode(mode), c.attention.average_weights = average;
                    c.attention.softcap = 2, c.attention.mask = "ij", c.attention.valid_lens = {0, kv_block_of(v) / 2};
                    check_case<decltype(zero)>(context, fitted(c, v), v.name);
                }
    });
}

TEST_CASE("additive variants: raw scores without projections are within 2e-6 of the sum of |w|, for any query and key",
          "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    // Magnitudes on both sides of the range of the separable form (|a|, |b| <= 22), alone and mixed in one row; opposite signs,
    // for which the sum is small however large its terms are.
    const std::vector<double> magnitudes = {1e-8, 1e-3, 0.5, 5, 11, 21.9, 22, 22.1, 43, 44, 45, 88, 89, 700, 1e4};
    for_each_additive(both, writes_weights, [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        using T = decltype(zero);
        c.w_query = c.w_key = false, c.hidden = 48, c.attention.weights = WeightsMode::scaled;
        c.attention.queries = 19, c.attention.keys = kv_block_of(v) + 3, c.attention.batch = 1;
        const auto check = [&](const char *what, const auto &fill) {
            AdditiveArrays<T> a(fitted(c, v));
            std::mt19937 random(c.attention.seed++);
            fill(a, random);
            double largest = 0;
            for (Array<T> *array : {&a.base.query, &a.base.key})
                array->each([&](T &x) { largest = std::max(largest, std::abs(double(x))); });
            const auto status = a.run(context, v.name);
            INFO(what << ' ' << describe(c) << ' ' << status.message());
            if (v.op == separable && largest > separable_range) {
                CHECK(status.code() == attune::StatusCode::unsupported);
                CHECK(a.base.weights.untouched());
                return;
            }
            CHECK(status.ok());
            CHECK(promise_defect(a.template reference<Reference<T>>(), a, a.promised_error()) == "");
        };
        for (double magnitude : magnitudes) {
            INFO("magnitude " << magnitude);
            check("uniform", [&](auto &a, auto &random) {
                a.base.query.randomise(random, magnitude), a.base.key.randomise(random, magnitude);
            });
            check("ends", [&](auto &a, auto &random) {
                const auto end = [&](T &x) { x = T(random() % 2 ? magnitude : -magnitude); };
                a.base.query.each(end), a.base.key.each(end);
            });
            check("opposite signs", [&](auto &a, auto &random) {
                std::uniform_real_distribution<double> small(-1, 1);
                a.base.query.each([&](T &x) { x = T(magnitude + small(random)); });
                a.base.key.each([&](T &x) { x = T(-magnitude + small(random)); });
            });
            check("only keys",
                  [&](auto &a, auto &random) { a.base.query.randomise(random, 1), a.base.key.randomise(random, magnitude); });
        }
        check("every magnitude in every row", [&](auto &a, auto &random) {
            const auto any = [&](T &x) { x = T(magnitudes[random() % magnitudes.size()] * (random() % 2 ? 1 : -1)); };
            a.base.query.each(any), a.base.key.each(any);
        });
    });
}

TEST_CASE("additive variants: weights of the sum beside large exponentials", "[additive][per_variant]") {
    attune::Context context({.threads = 2});
    // e^(2 (q + k)) |w| is far beyond the largest float; the scale makes scores of a few units.
    for_each_additive(both, all_kinds(), [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        using T = decltype(zero);
        c.w_query = c.w_key = false, c.hidden = 5, c.attention.seed = 6400;
        if (v.kind == "weights") c.attention.weights = WeightsMode::scaled;
        c.attention.queries = tile_of(v) + 1, c.attention.keys = kv_block_of(v) + 3, c.attention.batch = 1;
        c.attention.causal = Causal::bottom_right;
        for (double weight : {3.0, 700.0, 1e30}) {
            c.attention.scale = 2 / weight;
            AdditiveArrays<T> a(fitted(c, v));
            std::mt19937 random(c.attention.seed++);
            const auto near_end = [&](T &x) { x = T((random() % 2 ? 1 : -1) * (20.5 + random() % 7 * 0.25)); };
            a.base.query.each(near_end), a.base.key.each(near_end);
            a.w_score.each([&](T &x) { x = T((random() % 2 ? weight : -weight) * (1 + random() % 5 * 0.1)); });
            const auto status = a.run(context, v.name);
            INFO(describe(c) << " weight " << weight << ' ' << status.message());
            CHECK(status.ok());
            CHECK(defect(a) == "");
        }
    });
}

TEST_CASE("additive: raw scores of keys beyond valid_lens, or masked, of any magnitude", "[additive][per_variant]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {3, 4, 40})
        for (int mode : {0, 1, 2, 3})
            for (bool by_query : {false, true})
                for (bool average : {false, true}) {
                    AdditiveCase c{.attention = {.query_heads = 2, .key_heads = 1, .queries = queries, .keys = 37}};
                    c.w_query = c.w_key = false, c.hidden = 7, c.attention.seed = unsigned(6500 + queries + mode);
                    c.attention.weights = WeightsMode(mode), c.attention.average_weights = average;
                    if (mode == 1) c.attention.softcap = 3, c.attention.mask = "ij";
                    c.attention.valid_lens = {5, 30};
                    if (by_query) c.attention.valid_lens.assign(std::size_t(2 * queries), 11);
                    AdditiveArrays<float> a(c);
                    const float large[] = {23, -26.5F, 44, -60, 1e4F};
                    for (std::int64_t b = 0; b < 2; b++)
                        for (std::int64_t j = 30; j < 37; j++) a.base.key(b, 0, j, j % 7) = large[j % 5];
                    const auto status = a.run(context);
                    INFO(describe(c) << ' ' << status.message());
                    CHECK(status.ok());
                    CHECK(defect(a) == "");
                }
}

TEST_CASE("additive variants: NaN in masked keys has no effect, in kept ones it propagates", "[additive][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive({per_pair}, all_kinds(), [&](const attune::VariantInfo &v, auto zero, AdditiveCase c) {
        using T = decltype(zero);
        c.attention.queries = tile_of(v) + 1, c.attention.keys = kv_block_of(v) + 9;
        c.attention.valid_lens = {5, kv_block_of(v) + 2};
        for (bool project : {false, true})
            for (T with : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
                c.w_query = c.w_key = project;
                AdditiveArrays<T> clean(fitted(c, v)), masked(fitted(c, v)), seen(fitted(c, v));
                INFO(describe(c) << " with " << with);
                for (std::int64_t h = 0; h < 2; h++) {
                    masked.base.key(0, h, 5, 0) = masked.base.key(1, h, c.attention.keys - 1, 0) = with;
                    masked.base.value(0, h, 6, 1) = with;
                }
                seen.base.key(1, 1, 0, 0) = std::numeric_limits<T>::quiet_NaN();
                CHECK(clean.run(context, v.name).ok());
                CHECK(masked.run(context, v.name).ok());
                CHECK(seen.run(context, v.name).ok());
                CHECK(same_bits(clean.base.out.values(), masked.base.out.values()));
                CHECK(same_bits(clean.base.lse.values(), masked.base.lse.values()));
                if (c.attention.weights) CHECK(same_bits(clean.base.weights.values(), masked.base.weights.values()));
                std::int64_t wrong = 0;
                for (std::int64_t b = 0; b < 2; b++)
                    for (std::int64_t h = 0; h < 4; h++)
                        for (std::int64_t i = 0; i < c.attention.queries; i++)
                            wrong += std::isnan(seen.base.lse(b, h, i)) != (b == 1 && h >= 2) ||
                                     std::isnan(seen.base.out(b, h, i, 3)) != (b == 1 && h >= 2);
                CHECK(wrong == 0);
            }
    });
}
