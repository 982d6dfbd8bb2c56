// SPDX-License-Identifier: MIT
// Contents of masked keys and values: they have no effect, not on a single bit; NaN in kept ones reaches exactly their rows.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <functional>
#include <tuple>

using namespace attune_test;
using attune::Causal;

namespace {
template<typename T> void spoil(SdpaArrays<T> &a, const std::vector<std::int64_t> &keys, T with, bool in_key, bool in_value) {
    for (std::int64_t b = 0; b < a.the.batch; b++)
        for (std::int64_t h = 0; h < a.the.key_heads; h++)
            for (std::int64_t j : keys) {
                for (std::int64_t d = 0; in_key && d < a.the.head_dim; d++) a.key(b, h, j, d) = with;
                for (std::int64_t d = 0; in_value && d < a.the.value_dim; d++) a.value(b, h, j, d) = with;
            }
}

// A case and the keys that are spoiled in it, which some rows see and others do not.
struct MaskedCase {
    SdpaCase the;
    std::vector<std::int64_t> keys;
};
std::vector<MaskedCase> masked_cases(const attune::VariantInfo &v) {
    const auto [head_dim, value_dim] = head_size(v);
    const std::int64_t tile = tile_of(v), kv_block = kv_block_of(v), keys = 2 * kv_block + 5, queries = tile + 3;
    const auto with = [&](const std::function<void(SdpaCase &)> &mask, std::vector<std::int64_t> spoiled) {
        SdpaCase c{.query_heads = 2,
                   .key_heads = 2 / group_in_place(v),
                   .queries = queries,
                   .keys = keys,
                   .head_dim = head_dim,
                   .value_dim = value_dim};
        mask(c);
        return MaskedCase{c, spoiled};
    };
    const auto n = [](std::int64_t x) { return std::int32_t(x); };
    return {with(
                [&](SdpaCase &c) {
                    c.valid_lens = {3, n(keys - 2)};
                },
                {3, kv_block, keys - 2, keys - 1}),
            with([&](SdpaCase &c) { c.causal = Causal::bottom_right; }, {keys - queries / 2, keys - 2, keys - 1}),
            with([&](SdpaCase &c) { c.causal = Causal::top_left; }, {1, queries / 2, kv_block, keys - 1}),
            with(
                [&](SdpaCase &c) {
                    c.causal = Causal::offset, c.offsets = {-2, n(kv_block - 2)}, c.window = {1, 0};
                },
                {0, kv_block - 1, kv_block, keys - 1}),
            with(
                [&](SdpaCase &c) {
                    c.valid_lens = {0, 0};
                },
                {0, kv_block - 1, keys - 1}),
            with(
                [&](SdpaCase &c) {
                    c.queries = 1, c.valid_lens = {n(kv_block - 1), n(kv_block + 1)};
                },
                {kv_block - 1, kv_block, kv_block + 1}),
            with(
                [&](SdpaCase &c) {
                    c.causal = Causal::bottom_right;
                    for (std::int64_t row = 0; row < 2 * queries; row++) c.valid_lens.push_back(n(row % 2 ? keys : kv_block));
                },
                {kv_block, kv_block + 1, keys - 1})};
}

// Cases of array masks, and of all other steps on scores.
std::vector<MaskedCase> array_masked_cases(const attune::VariantInfo &v) {
    const auto [head_dim, value_dim] = head_size(v);
    const std::int64_t kv_block = kv_block_of(v), keys = kv_block + 7;
    const SdpaCase base{.query_heads = 2,
                        .key_heads = 1,
                        .queries = tile_of(v) + 3,
                        .keys = keys,
                        .head_dim = head_dim,
                        .value_dim = value_dim};
    std::vector<MaskedCase> all;
    const auto with = [&](const std::function<void(SdpaCase &)> &mask, std::vector<std::int64_t> spoiled) {
        all.push_back({base, spoiled});
        mask(all.back().the);
    };
    const std::vector<std::int64_t> last = {keys - 1}, several = {1, kv_block, keys - 1};
    with([](SdpaCase &c) { c.mask = "bhij"; }, several);
    with([](SdpaCase &c) { c.mask = "ij", c.softcap = 4, c.sinks = true; }, last);
    for (double hole : {-std::numeric_limits<double>::infinity(), v.dtype == attune::DType::f64 ? -1.1e308 : -3.4e38}) {
        with([&](SdpaCase &c) { c.bias = "hij", c.hole = hole; }, several);
        with([&](SdpaCase &c) { c.bias = "ij", c.hole = hole, c.alibi = Alibi::standard, c.softcap = 20; }, last);
    }
    with([](SdpaCase &c) { c.causal = Causal::bottom_right, c.softcap = 3, c.sinks = true, c.alibi = Alibi::per_batch; }, last);
    with([&](SdpaCase &c) { c.valid_lens = {0, std::int32_t(kv_block)}, c.softcap = 3, c.bias = "b11j"; }, last);
    return all;
}

// Effects of spoiled keys: rows that see none keep the bits that they have with zeros there; NaN reaches all other rows.
template<typename T> struct Effects {
    std::int64_t changed = 0, not_nan = 0, clean_rows = 0;

    Effects(SdpaArrays<T> &clean, SdpaArrays<T> &spoiled, const std::vector<std::int64_t> &keys, bool in_key, bool nan) {
        const SdpaCase &c = clean.the;
        const auto look = [&](bool sees, bool expect_nan, auto was, auto is) {
            changed += !sees && !same_bits(was, is);
            not_nan += sees && expect_nan && nan && !std::isnan(is);
        };
        for (std::int64_t b = 0; b < c.batch; b++)
            for (std::int64_t h = 0; h < c.query_heads; h++)
                for (std::int64_t i = 0; i < c.queries; i++) {
                    bool sees = false;
                    for (std::int64_t j : keys) sees = sees || clean.kept(b, h, i, j);
                    clean_rows += !sees;
                    look(sees, in_key, clean.lse(b, h, i), spoiled.lse(b, h, i));
                    for (std::int64_t d = 0; d < c.value_dim; d++)
                        look(sees, true, clean.out(b, h, i, d), spoiled.out(b, h, i, d));
                    for (std::int64_t j = 0; c.weights && j < c.keys; j++)
                        look(sees, in_key && clean.kept(b, h, i, j), clean.weights(b, h, i, j), spoiled.weights(b, h, i, j));
                }
    }
};

void check_masked_data(const std::vector<std::string_view> &kinds,
                       const std::function<std::vector<MaskedCase>(const attune::VariantInfo &)> &cases) {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", kinds, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity(),
                largest = std::numeric_limits<T>::max();
        for (auto [c, keys] : cases(v)) {
            if (v.kind == "weights") c.weights = attune::WeightsMode::probabilities;
            INFO(describe(c));
            SdpaArrays<T> clean(c);
            spoil(clean, keys, T(0), true, true);
            const auto status = clean.run(context, v.name);
            INFO(status.message());
            CHECK(status.ok());
            for (const auto &[with, in_key, in_value] : {std::tuple(nan, true, true),
                                                         {nan, true, false},
                                                         {nan, false, true},
                                                         {infinity, true, true},
                                                         {-infinity, true, true},
                                                         {largest, true, true}}) {
                SdpaArrays<T> spoiled(c);
                spoil(spoiled, keys, with, in_key, in_value);
                CHECK(spoiled.run(context, v.name).ok());
                const Effects<T> effects(clean, spoiled, keys, in_key, std::isnan(with));
                INFO("filled with " << with << (in_key ? " in key" : "") << (in_value ? " in value" : ""));
                CHECK(effects.clean_rows > 0);
                CHECK(effects.changed == 0);
                CHECK(effects.not_nan == 0);
            }
        }
    });
}
}  // namespace

TEST_CASE("variants: masked keys and values may hold anything", "[sdpa][per_variant]") {
    check_masked_data(any_kind, masked_cases);
}
TEST_CASE("variants: keys and values masked by a boolean mask or a bias may hold anything", "[sdpa][per_variant]") {
    check_masked_data(knows_scores, array_masked_cases);
}
TEST_CASE("variants: masked keys and values have no effect on weights", "[sdpa][per_variant]") {
    check_masked_data(writes_weights, masked_cases);
    check_masked_data(writes_weights, array_masked_cases);
}

TEST_CASE("variants: rows without keys give 0 and minus infinity", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        for (const auto &[queries, keys] : {std::pair(1, kv_block_of(v) + 1), {tile_of(v) + 1, 19}}) {
            SdpaCase c{.queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim, .valid_lens = {0, 0}};
            SdpaArrays<T> a(c);
            const auto fill = [](Array<T> &x) { x.each([](T &e) { e = std::numeric_limits<T>::quiet_NaN(); }); };
            fill(a.key), fill(a.value), fill(a.query);
            CHECK(a.run(context, v.name).ok());
            bool right = true;
            a.out.each([&](T &x) { right = right && x == 0; });
            a.lse.each([&](Sum<T> &x) { right = right && x == -std::numeric_limits<Sum<T>>::infinity(); });
            INFO(describe(c));
            CHECK(right);
        }
    });
}

TEST_CASE("variants: rows whose window ends where it begins give 0, with a scale of 0, too", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        for (const double scale : {0.0, 0.3})
            for (const std::int32_t keys : {16, 32, 64, 128}) {  // around the parts of KV blocks
                SdpaCase c{.batch = 3, .queries = 1, .keys = keys + 1, .head_dim = head_dim, .value_dim = value_dim};
                c.scale = scale, c.causal = attune::Causal::bottom_right, c.window = {0, -1};
                c.valid_lens = {keys, keys - 1, 0};
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("variants: NaN in a kept score reaches its rows and channels only", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const T nan = std::numeric_limits<T>::quiet_NaN();
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t queries = tile_of(v) + 2, keys = kv_block_of(v) + 9;
        SdpaCase c{
            .query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim};
        SdpaArrays<T> clean(c), a(c);
        CHECK(clean.run(context, v.name).ok());
        // One query of head 1 of entry 0; one key that all see, of key head 1 of entry 1; one channel of a value of key head 0.
        a.query(0, 1, queries - 1, head_dim - 1) = nan;
        a.key(1, 1, keys / 2, 0) = nan;
        a.value(1, 0, keys - 1, value_dim - 1) = nan;
        CHECK(a.run(context, v.name).ok());
        std::int64_t wrong = 0;
        for (std::int64_t b = 0; b < 2; b++)
            for (std::int64_t h = 0; h < 4; h++)
                for (std::int64_t i = 0; i < queries; i++) {
                    const bool row = (b == 0 && h == 1 && i == queries - 1) || (b == 1 && h >= 2);
                    wrong += row ? !std::isnan(a.lse(b, h, i)) : !same_bits(a.lse(b, h, i), clean.lse(b, h, i));
                    for (std::int64_t d = 0; d < value_dim; d++) {
                        const bool is_nan = row || (b == 1 && h < 2 && d == value_dim - 1);
                        const T x = a.out(b, h, i, d);
                        wrong += is_nan ? !std::isnan(x) : !same_bits(x, clean.out(b, h, i, d));
                    }
                }
        INFO(describe(c));
        CHECK(wrong == 0);
    });
}

// The last KV block is padded: where every key takes part, only the padding is masked.
TEST_CASE("variants: an infinite value is infinite in every row, where every key takes part", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        const std::int64_t kv_block = kv_block_of(v), keys = kv_block + 5;
        for (const std::int64_t queries : std::vector<std::int64_t>{tile_of(v) + 1, 70})
            for (const std::int64_t infinite : std::vector<std::int64_t>{1, kv_block + 1, keys - 1}) {
                SdpaArrays<T> a(
                    {.queries = queries, .keys = keys, .head_dim = head_dim, .value_dim = value_dim, .spread = 0.1});
                a.value(1, 0, infinite, value_dim - 1) = T(std::numeric_limits<float>::infinity());
                REQUIRE(a.run(context, v.name).ok());
                std::int64_t wrong = 0;
                for (std::int64_t b = 0; b < a.the.batch; b++)
                    for (std::int64_t h = 0; h < a.the.query_heads; h++)
                        for (std::int64_t i = 0; i < queries; i++)
                            for (std::int64_t d = 0; d < value_dim; d++) {
                                const bool reached = b == 1 && h < a.the.query_heads / a.the.key_heads && d == value_dim - 1;
                                const double x = double(a.out(b, h, i, d));
                                wrong += reached ? x != std::numeric_limits<double>::infinity() : !std::isfinite(x);
                            }
                INFO("value " << infinite << " of " << keys << ", " << queries << " queries");
                CHECK(wrong == 0);
            }
    });
}
