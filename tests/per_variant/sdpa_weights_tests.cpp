// SPDX-License-Identifier: MIT
// Weights or scores as an output (docs/conventions.md row 23): every variant that writes them against the reference, in the
// four modes and averaged over heads; wanted beside lse, they change no bit of the other outputs.
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal, attune::WeightsMode;

namespace {
constexpr WeightsMode modes[] = {WeightsMode::scaled, WeightsMode::capped, WeightsMode::masked, WeightsMode::probabilities};

template<typename F> void for_each_weighted(const attune::VariantInfo &v, const F &f) {
    for_each_small_case(v, 3000, {13, 1}, f);
}

void mask_a_little(SdpaCase &c) { c.causal = Causal::bottom_right, c.valid_lens = {std::int32_t(c.keys / 2), 0}; }
void set_everything(SdpaCase &c) {
    c.softcap = 6, c.bias = "hij", c.hole = -std::numeric_limits<double>::infinity(), c.alibi = Alibi::standard;
    c.mask = "b1ij", c.sinks = true, c.causal = Causal::bottom_right, c.window = {c.keys / 2, -1};
}
}  // namespace

TEST_CASE("variants: weights in the four modes, and their mean over heads", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", writes_weights, [&](const attune::VariantInfo &v, auto zero) {
        for_each_weighted(v, [&](SdpaCase c) {
            for (WeightsMode mode : modes)
                for (int masks : {0, 1, 2})
                    for (bool average : {false, true}) {
                        SdpaCase one = c;
                        one.weights = mode, one.average_weights = average;
                        if (masks == 1) mask_a_little(one), one.strided_masks = true;
                        if (masks == 2) set_everything(one);
                        check_case<decltype(zero)>(context, one, v.name);
                    }
        });
    });
}

TEST_CASE("variants: weights at numbers of queries and keys around tiles and KV blocks", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", writes_weights, [&](const attune::VariantInfo &v, auto zero) {
        unsigned seed = 3100;
        for (const auto &[head_dim, value_dim] : head_sizes(v))
            for (const auto &[queries, keys] : awkward_sizes(v)) {
                if (++seed % 3 != 0 && v.head_dim == 0) continue;  // for time: sizes and head sizes in turns
                SdpaCase c{.batch = 1,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .causal = seed % 2 ? Causal::bottom_right : Causal::none,
                           .seed = seed,
                           .weights = modes[seed % 4]};
                check_case<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("variants: asking for weights beside lse changes no bit of out and lse", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", any_kind, [&](const attune::VariantInfo &v, auto zero) {
        for_each_weighted(v, [&](SdpaCase c) {
            mask_a_little(c);
            if (v.kind == "training") c.dropout = {0.3, 7, 0};
            SdpaArrays<decltype(zero)> without(c);
            CHECK(without.run(context, v.name).ok());
            for (WeightsMode mode : modes) {
                c.weights = mode;
                SdpaArrays<decltype(zero)> with(c);
                const auto status = with.run(context, v.name);
                INFO(describe(c) << ' ' << status.message());
                CHECK(status.ok());
                CHECK(same_bits(without.out.values(), with.out.values()));
                CHECK(same_bits(without.lse.values(), with.lse.values()));
            }
        });
    });
}

// Values computed from the weights: without lse or dropout, the weights are the only wanted output of the scores' kernel.
TEST_CASE("weights: values that are computed from them", "[sdpa][semantics]") {
    attune::Context context(in_fenced_scratch());
    // In the last size, one batch entry has as many weights as are averaged at a time.
    for (const auto &[queries, keys, heads, average] : {std::tuple(1, 1, 2, false),
                                                        {7, 70, 2, false},
                                                        {33, 129, 4, false},
                                                        {65, 300, 2, false},
                                                        {128, 64, 8, false},
                                                        {1, 1, 2, true},
                                                        {33, 129, 4, true},
                                                        {300, 1000, 8, true}})
        for (bool masked : {false, true}) {
            SdpaCase c{.query_heads = heads, .key_heads = 2, .queries = queries, .keys = keys, .value_dim = 40};
            c.weights = WeightsMode::probabilities, c.average_weights = average;
            if (masked) c.valid_lens = {std::int32_t(keys), std::int32_t(keys / 2)};
            SdpaArrays<float> clean(c), dirty(c);
            // The second batch entry's last value is masked, or there are no masks to test.
            if (masked)
                for (std::int64_t d = 0; d < c.value_dim; d++) dirty.value(1, 0, keys - 1, d) = std::nanf("");
            for (SdpaArrays<float> *a : {&clean, &dirty}) {
                attune::SdpaOptions options = a->options({});
                options.lse = {};
                INFO(describe(c));
                const attune::Status status = attune::scaled_dot_product_attention(context, a->query.view(), a->key.view(),
                                                                                   a->value.view(), a->out.view(), options);
                INFO(status.message());
                REQUIRE(status.ok());
                CHECK(context.last_variant().ends_with("_weights"));
                CHECK(a->out.gaps_untouched());
                const auto reference = sdpa_reference<double, float>(a->query.view(), a->key.view(), a->value.view(), options);
                const auto plain = sdpa_reference<float, float>(a->query.view(), a->key.view(), a->value.view(), options);
                const attune_test::Verdict out = judge(reference.out, plain.out, a->out.values());
                INFO(out.why);
                CHECK(out.right);
                const attune_test::Verdict weights = judge(reference.weights, plain.weights, a->weights.values());
                INFO(weights.why);
                CHECK(weights.right);
            }
            CHECK(same_bits(clean.out.values(), dirty.out.values()));
        }
}

// The mean over heads is a head's memory, beside which the weights of all heads, which are averaged in scratch memory, have no
// room in the buffer: an output behind it overlaps nothing.
TEST_CASE("weights: an output right behind the mean over heads", "[sdpa][semantics]") {
    attune::Context context;
    SdpaCase c{.query_heads = 8, .key_heads = 2, .queries = 30, .keys = 100};
    c.weights = WeightsMode::probabilities, c.average_weights = true;
    c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)};  // groups of entries, which are checked before any runs
    SdpaArrays<float> a(c);
    attune::SdpaOptions options = a.options({});
    options.lse = {};
    const std::int64_t mean = c.batch * c.queries * c.keys, values = c.batch * c.query_heads * c.queries * c.head_dim;
    std::vector<float> buffer(std::size_t(mean + values));
    options.weights = attune::View(buffer.data(), {c.batch, c.queries, c.keys});
    const attune::View out(buffer.data() + mean, {c.batch, c.query_heads, c.queries, c.head_dim});
    const attune::Status status =
        attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(), a.value.view(), out, options);
    INFO(status.message());
    REQUIRE(status.ok());
    REQUIRE(context.last_variant().ends_with("_weights"));
    SdpaArrays<float> apart(c);
    options.weights = apart.weights.view();
    REQUIRE(attune::scaled_dot_product_attention(context, apart.query.view(), apart.key.view(), apart.value.view(),
                                                 apart.out.view(), options)
                .ok());
    CHECK(same_bits(std::vector<float>(buffer.begin() + mean, buffer.end()), apart.out.values()));
    CHECK(same_bits(std::vector<float>(buffer.begin(), buffer.begin() + mean), apart.weights.values()));
}

TEST_CASE("variants: weights are those before dropout", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", writes_weights, [&](const attune::VariantInfo &v, auto zero) {
        for_each_weighted(v, [&](SdpaCase c) {
            c.weights = WeightsMode::probabilities;
            SdpaArrays<decltype(zero)> without(c);
            CHECK(without.run(context, v.name).ok());
            for (double p : {0.5, 1.0}) {
                c.dropout = {p, 99, 1};
                SdpaArrays<decltype(zero)> with(c);
                CHECK(with.run(context, v.name).ok());
                INFO(describe(c));
                CHECK(defect(with) == "");
                CHECK(same_bits(without.weights.values(), with.weights.values()));
            }
        });
    });
}

TEST_CASE("variants: weights of rows without keys are 0, and raw scores are every key's", "[sdpa][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("sdpa", writes_weights, [&](const attune::VariantInfo &v, auto zero) {
        for_each_weighted(v, [&](SdpaCase c) {
            c.valid_lens = {0, 0};
            for (WeightsMode mode : modes) {
                c.weights = mode;
                check_case<decltype(zero)>(context, c, v.name);
            }
            SdpaCase all = c;
            all.valid_lens.clear();
            c.weights = all.weights = WeightsMode::scaled;
            SdpaArrays<decltype(zero)> masked(c), free(all);
            CHECK(masked.run(context, v.name).ok());
            CHECK(free.run(context, v.name).ok());
            CHECK(same_bits(masked.weights.values(), free.weights.values()));
        });
    });
}

TEST_CASE("variants: the mean over heads is their sum in the order of heads, divided once and rounded once",
          "[sdpa][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_variant("sdpa", writes_weights, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const auto [head_dim, value_dim] = head_size(v);
        unsigned seed = 3200;
        for (std::int64_t heads : {2, 7, 13, 47})
            for (const auto &[queries, keys] :
                 {std::pair(3, 1), {5, 70}})  // with one key every weight is 1, and so is their mean
                for (WeightsMode mode : {WeightsMode::masked, WeightsMode::probabilities}) {
                    SdpaCase c{.query_heads = heads, .key_heads = 1, .queries = queries, .keys = keys, .head_dim = head_dim};
                    c.value_dim = value_dim, c.causal = Causal::bottom_right, c.seed = seed++, c.weights = mode;
                    SdpaArrays<T> each(c);
                    c.average_weights = true, c.strided_masks = seed % 3 == 0;
                    SdpaArrays<T> mean(c);
                    INFO(describe(c));
                    REQUIRE(each.run(context, v.name).ok());
                    REQUIRE(mean.run(context, v.name).ok());
                    const std::vector<T> weights = each.weights.values(), got = mean.weights.values();
                    std::int64_t wrong = 0;
                    const std::int64_t pairs = queries * keys;
                    for (std::int64_t n = 0; n < c.batch * pairs; n++) {
                        Sum<T> sum = 0;
                        for (std::int64_t h = 0; h < heads; h++)
                            sum += Sum<T>(weights[std::size_t((n / pairs * heads + h) * pairs + n % pairs)]);
                        wrong += !same_bits(got[std::size_t(n)], T(sum / Sum<T>(heads)));
                    }
                    CHECK(wrong == 0);
                }
    });
}
