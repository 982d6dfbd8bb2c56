// SPDX-License-Identifier: MIT
// multi_head_attention_backward through the dispatcher (docs/conventions.md rows 16, 26, 29 and 35): the central differences of
// the layer by every input, the error rule, bits, padding with arbitrary contents, and bad input.
#include "tests/support/central_differences.h"
#include "tests/support/multi_head_backward_case.h"
#include "tests/support/option_sets.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::Score, attune::View;

namespace {
MultiHeadCase usual(unsigned seed = 1) {
    return {
        .attention = {.query_heads = 4, .key_heads = 2, .queries = 5, .keys = 7, .head_dim = 3, .value_dim = 5, .seed = seed},
        .query_width = 7,
        .key_width = 5,
        .value_width = 9,
        .out_width = 6,
        .query_bias = true,
        .key_bias = true,
        .value_bias = true,
        .out_bias = true};
}

// A range of elements that is not an Array.
struct Slice {
    double *at;
    std::int64_t count;
    double *data() { return at; }
    template<typename F> void each(const F &f) {
        for (std::int64_t n = 0; n < count; n++) f(at[n]);
    }
};

void check_differences(attune::Context &context, const MultiHeadCase &c, std::size_t most) {
    MultiHeadBackwardArrays<double> a(c);
    // Rounded so that central_difference can move them exactly.
    for (auto *array : {&a.layer.base.slopes, &a.layer.base.sinks})
        array->each([](float &x) { x = std::round(x * 4096) / 4096; });
    INFO(describe(c));
    const attune::Status status = a.run(context);
    INFO(status.message());
    REQUIRE(status.ok());
    const auto loss = [&] {
        if (!a.layer.run(context).ok()) return std::nan("");
        const auto out = a.layer.out.values(), by = a.grad_out.values();
        long double sum = 0;
        for (std::size_t n = 0; n < out.size(); n++) sum += static_cast<long double>(out[n]) * by[n];
        return double(sum);
    };
    std::mt19937 random(c.attention.seed);
    const auto compare = [&](const char *name, auto &array, auto &gradient) {
        if (gradient.view().given())
            CHECK(difference_defect(differenced(name, array, gradient.values(), loss), most, random) == "");
    };
    compare("query", a.layer.query, a.inputs[0]);
    if (!c.self) compare("key", a.layer.key, a.inputs[1]), compare("value", a.layer.value, a.inputs[2]);
    const attune::MultiHeadWeights w = a.layer.weights();
    const ConstView maps[] = {w.query, w.key, w.value}, sums[] = {w.query_bias, w.key_bias, w.value_bias};
    const char *const names[] = {"weights.query", "weights.key", "weights.value"};
    for (int n = 0; n < 3; n++) {
        Slice weight{static_cast<double *>(const_cast<void *>(maps[n].data)), maps[n].extent[0] * maps[n].extent[1]};
        compare(names[n], weight, a.weights[n]);
        if (!sums[n].given()) continue;
        Slice bias{static_cast<double *>(const_cast<void *>(sums[n].data)), sums[n].extent[0]};
        compare(names[n], bias, a.biases[n]);
    }
    compare("weights.out", a.layer.w_out, a.weights[3]);
    compare("weights.out_bias", a.layer.out_bias, a.biases[3]);
    compare("bias", a.layer.base.bias, a.bias);
    compare("score_weight", a.layer.base.score_weight, a.score_weight);
    if (c.attention.alibi > Alibi::standard) compare("alibi_slopes", a.layer.base.slopes, a.slopes);
    compare("sinks", a.layer.base.sinks, a.sinks);
}
}  // namespace

TEST_CASE("multi-head gradients: central differences by every input", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    constexpr std::size_t every_element = std::numeric_limits<std::size_t>::max();
    check_differences(context, usual(1), every_element);
    unsigned seed = 2;
    for (const auto &[heads, key_heads] : {std::pair(1, 1), {3, 3}, {6, 2}, {4, 1}})
        for (bool strided : {false, true}) {
            MultiHeadCase c = usual(seed++);
            c.attention.query_heads = heads, c.attention.key_heads = key_heads, c.strided = strided;
            c.query_bias = seed % 2, c.value_bias = seed % 3 == 0;
            check_differences(context, c, 12);
        }
}

TEST_CASE("multi-head gradients: central differences under masks and options", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    std::vector<SetOption> all = option_sets::length_masks();
    const auto add = [&](const std::vector<SetOption> &more) { all.insert(all.end(), more.begin(), more.end()); };
    add(option_sets::causal_masks()), add(option_sets::boolean_masks());
    add({[](SdpaCase &c) { c.bias = "hij"; }, [](SdpaCase &c) { c.bias = "b1ij", c.hole = option_sets::minus_infinity; },
         [](SdpaCase &c) { c.alibi = Alibi::per_head; }, [](SdpaCase &c) { c.alibi = Alibi::standard, c.softcap = 2; },
         [](SdpaCase &c) {
             c.sinks = true, c.valid_lens = {0, 4};
         },
         [](SdpaCase &c) {
             c.dropout = {0.4, 7, 1};
         },
         [](SdpaCase &c) {
             c.dropout = {1.0, 7, 1};
         },
         [](SdpaCase &c) {
             c.softcap = 3, c.bias = "1hij", c.alibi = Alibi::per_batch, c.mask = "b1ij", c.sinks = true;
             c.dropout = {0.3, 5, 0}, c.causal = Causal::bottom_right;
         }});
    unsigned seed = 30;
    for (const SetOption &set_option : all) {
        MultiHeadCase c = usual(seed++);
        set_option(c.attention);
        check_differences(context, c, 6);
    }
}

TEST_CASE("multi-head gradients: central differences of the general score", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    MultiHeadCase c = usual(90);
    c.attention.score = Score::general, c.attention.causal = Causal::bottom_right;
    check_differences(context, c, 12);
}

TEST_CASE("multi-head gradients: the error rule over types, sizes and biases", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 100;
    for (const auto &[heads, key_heads] : {std::pair(1, 1), {8, 2}, {3, 3}})
        for (const auto &[head_dim, value_dim] : {std::pair(8, 8), {64, 64}, {5, 11}})
            for (const auto &[queries, keys] : {std::pair(1, 1), {1, 70}, {62, 60}}) {
                MultiHeadCase c = usual(seed++);
                c.attention.query_heads = heads, c.attention.key_heads = key_heads, c.attention.queries = queries;
                c.attention.keys = keys, c.attention.head_dim = head_dim, c.attention.value_dim = value_dim;
                c.query_width = 24, c.out_bias = seed % 2, c.query_bias = seed % 3 == 0, c.strided = seed % 5 == 0;
                if (seed % 2) c.attention.causal = Causal::bottom_right;
                check_backward<float>(context, c);
                if (seed % 3 == 0) check_backward<double>(context, c);
                check_backward<BFloat16>(context, c);
                if (seed % 3 == 1) check_backward<Float16>(context, c);
            }
}

// One product with packed weights computes all projections; gradients are still by each argument.
TEST_CASE("multi-head gradients: of self-attention, packed or not", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    MultiHeadCase c = usual();
    c.self = true, c.attention.queries = 12;
    MultiHeadBackwardArrays<float> apart(c);
    REQUIRE(apart.run(context).ok());
    CHECK(defect(apart) == "");
    c.packed = true;
    check_backward<float>(context, c);
    check_backward<double>(context, c);
}

TEST_CASE("multi-head gradients: the same bits over 1, 2, 3 and 7 threads, and each alone", "[mha_backward][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    MultiHeadCase c = usual();
    c.attention.queries = 130, c.attention.keys = 150, c.attention.head_dim = c.attention.value_dim = 16;
    c.attention.bias = "hij", c.attention.sinks = true, c.attention.dropout = {0.1, 1, 2};
    MultiHeadBackwardArrays<float> expected(c);
    REQUIRE(expected.run(one).ok());
    for (attune::Context *context : {&one, &two, &three, &seven}) {
        std::vector<unsigned> sets = {want_everything};
        if (context == &two)
            for (int bit = 0; bit < 15; bit++) sets.push_back(1u << bit);
        for (unsigned wanted : sets) {
            MultiHeadBackwardArrays<float> some(c);
            INFO("threads " << context->threads() << " wanted " << wanted);
            REQUIRE(some.run(*context, {}, wanted).ok());
            some.each_gradient([&](const char *name, int bit, auto &array, auto, auto) {
                INFO(name);
                if (!(wanted & 1u << bit)) CHECK(array.untouched());
                expected.each_gradient([&](const char *, int other, auto &whole, auto, auto) {
                    if constexpr (std::is_same_v<decltype(whole), decltype(array)>)
                        if (other == bit && wanted & 1u << bit) CHECK(same_bits(array.values(), whole.values()));
                });
            });
        }
    }
}

TEST_CASE("multi-head gradients: what padding holds has no effect", "[mha_backward][semantics]") {
    attune::Context context({.threads = 2});
    MultiHeadCase c = usual();
    c.attention.keys = 40, c.attention.queries = 33, c.attention.valid_lens = {0, 25};
    MultiHeadBackwardArrays<float> clean(c), spoiled(c);
    const auto spoil = [&](Array<float> &array, std::int64_t b, std::int64_t first) {
        const View v = array.view();
        for (std::int64_t i = first; i < v.extent[1]; i++)
            for (std::int64_t e = 0; e < v.extent[2]; e++)
                array(b, i, e) = e % 2 ? std::nanf("") : std::numeric_limits<float>::infinity();
    };
    // The first entry has no keys, so its queries take no part either.
    spoil(spoiled.layer.key, 0, 0), spoil(spoiled.layer.key, 1, 25), spoil(spoiled.layer.value, 0, 0);
    spoil(spoiled.layer.value, 1, 25), spoil(spoiled.layer.query, 0, 0);
    REQUIRE(clean.run(context).ok());
    REQUIRE(spoiled.run(context).ok());
    CHECK(defect(clean) == "");
    spoiled.each_gradient([&](const char *name, int bit, auto &array, auto, auto) {
        INFO(name);
        clean.each_gradient([&](const char *, int other, auto &whole, auto, auto) {
            if constexpr (std::is_same_v<decltype(whole), decltype(array)>)
                if (other == bit) CHECK(same_bits(array.values(), whole.values()));
        });
    });
    for (int e = 0; e < 7; e++) CHECK(spoiled.inputs[0](0, 3, e) == 0);
    for (int e = 0; e < 5; e++) CHECK((spoiled.inputs[1](0, 3, e) == 0 && spoiled.inputs[1](1, 30, e) == 0));
}

TEST_CASE("multi-head gradients: no batch, no queries, no keys", "[mha_backward][semantics]") {
    attune::Context context;
    for (const auto &[batch, queries, keys] : {std::tuple(0, 3, 3), {2, 0, 3}, {2, 3, 0}}) {
        MultiHeadCase c = usual();
        c.attention.batch = batch, c.attention.queries = queries, c.attention.keys = keys;
        MultiHeadBackwardArrays<float> a(c);
        INFO(describe(c));
        const auto status = a.run(context);
        INFO(status.message());
        REQUIRE(status.ok());
        for (int n = 0; n < 3; n++)
            for (float x : a.weights[n].values()) CHECK(x == 0);
        for (float x : a.inputs[0].values()) CHECK(x == 0);
    }
}

TEST_CASE("multi-head gradients: which variant ran, and one that is forced", "[mha_backward][runtime]") {
    attune::Context context;
    MultiHeadBackwardArrays<float> a(usual());
    REQUIRE(a.run(context).ok());
    CHECK(context.last_variant().rfind("sdpa_backward_f32_", 0) == 0);
    REQUIRE(a.run(context, "sdpa_backward_f32_dany_generic_root_training").ok());
    CHECK(context.last_variant() == "sdpa_backward_f32_dany_generic_root_training");
    CHECK(defect(a) == "");
}
