// SPDX-License-Identifier: MIT
// Gradients of additive attention (docs/conventions.md row 27) in every variant, against the reference; and their bits.
#include "tests/support/additive_backward_case.h"
#include "tests/support/option_sets.h"

using namespace attune_test;
using attune::Causal;

namespace {
// Calls f(variant, T{}, case): four query heads on two key heads, widths other than powers of two.
template<typename F> void for_each_additive_backward(const F &f) {
    for_each_wide_variant(additive_backward_op, {"training"}, [&](const attune::VariantInfo &v, auto zero) {
        AdditiveBackwardCase c;
        c.forward.attention = {.query_heads = 4, .key_heads = 2, .head_dim = 9, .value_dim = 11};
        c.forward.attention.key_dim = 14;
        f(v, zero, c);
    });
}
}  // namespace

TEST_CASE("additive gradients by variant: numbers of queries and keys around tiles", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        SdpaCase &a = c.forward.attention;
        a.batch = 1, a.query_heads = a.key_heads = 1, c.forward.hidden = 8, a.seed = 100;
        const std::vector<std::int64_t> sizes = {1, 3, 4, 5, 63, 64, 65, 131};
        for (std::size_t round : {0, 3})
            for (std::size_t n = 0; n < sizes.size(); n++) {
                a.queries = sizes[n], a.keys = sizes[(n + round) % sizes.size()], a.seed++;
                c.forward.w_query = c.forward.w_key = a.seed % 2;
                a.causal = Causal(a.seed % 3), c.grad_lse = a.seed % 4 == 0;
                check_additive<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("additive gradients by variant: hidden and value sizes, projections, layouts", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        SdpaCase &a = c.forward.attention;
        a.seed = 200, a.queries = 5, a.keys = 35;
        for (std::int64_t hidden : {1, 3, 16, 37, 64, 130})
            for (unsigned on = 0; on < 4; on++) {
                const unsigned seed = ++a.seed;
                c.forward.hidden = hidden, c.forward.w_query = on & 1, c.forward.w_key = on & 2;
                c.forward.b_query = c.forward.w_query && seed % 2, c.forward.b_key = c.forward.w_key && seed % 3;
                c.forward.w_score = seed % 5 != 0, c.forward.b_score = seed % 4 ? 0 : 1.5;
                a.value_dim = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 33 : hidden;
                a.scale = seed % 7 ? std::optional<double>() : std::optional<double>(-0.5);
                a.query_layout = seed % 2 ? Layout::bshd : Layout::dense;
                a.key_layout = seed % 2 ? Layout::padded : Layout::fused;
                a.strided_masks = seed % 2, c.grad_layout = seed % 2 ? Layout::padded : Layout::bshd;
                check_additive<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("additive gradients by variant: masks and options of every kind", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        c.forward.attention.seed = 300;
        std::vector<SetOption> all;
        for (const auto &set :
             {option_sets::length_masks(), option_sets::alibis(), option_sets::caps_and_sinks(), option_sets::everything()})
            for (std::size_t n = 0; n < set.size(); n += 2) all.push_back(set[n]);
        for (const char *shape : {"bhij", "ij", "j", "i1", "b11j", "1h1j"})
            for (double hole : {0.0, option_sets::minus_infinity})
                all.push_back([=](SdpaCase &a) { a.bias = shape, a.hole = hole; });
        all.push_back([](SdpaCase &a) { a.mask = "b1ij"; });
        all.push_back([](SdpaCase &a) { a.window = {2, 1}, a.causal = Causal::bottom_right; });
        all.push_back([](SdpaCase &a) { a.dropout = {0.4, 5, 1}; });
        for (const SetOption &set : all) {
            AdditiveBackwardCase one = c;
            SdpaCase &a = one.forward.attention;
            const bool large = c.forward.attention.seed % 3 == 0;
            a.queries = large ? 66 : 6, a.keys = large ? 70 : 9, a.seed = c.forward.attention.seed++;
            if (large) a.query_heads = 2, a.key_heads = 1;  // for time
            one.forward.w_query = one.forward.w_key = a.seed % 2, one.grad_lse = a.seed % 4 == 0;
            set(a);
            check_additive<decltype(zero)>(context, one, v.name);
        }
    });
}

TEST_CASE("additive gradients by variant: no queries, no keys, no batch", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        for (const auto &[batch, queries, keys] : {std::tuple(2, 0, 7), {2, 5, 0}, {0, 5, 7}, {2, 0, 0}})
            for (bool project : {false, true}) {
                SdpaCase &a = c.forward.attention;
                a.batch = batch, a.queries = queries, a.keys = keys, a.sinks = project, c.grad_lse = project;
                c.forward.w_query = c.forward.w_key = c.forward.b_key = project;
                check_additive<decltype(zero)>(context, c, v.name);
            }
    });
}

TEST_CASE("additive gradients by variant: what masked keys hold has no effect", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        using T = decltype(zero);
        c.forward.attention.queries = 66, c.forward.attention.keys = 73, c.forward.attention.valid_lens = {5, 66};
        for (bool project : {false, true})
            for (T with : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), T(1e4)}) {
                c.forward.w_query = c.forward.w_key = project;
                AdditiveBackwardArrays<T> clean(c);
                INFO(describe(c) << " with " << with);
                REQUIRE(clean.run_forward(context).ok());
                auto masked = clean;
                for (std::int64_t h = 0; h < 2; h++) {
                    masked.forward.base.key(0, h, 5, 0) = masked.forward.base.key(1, h, 72, 3) = with;
                    masked.forward.base.value(0, h, 6, 1) = with;
                }
                CHECK(clean.run(context, v.name).ok());
                CHECK(masked.run(context, v.name).ok());
                CHECK(clean.bits() == masked.bits());
            }
    });
}

TEST_CASE("additive gradients have the same bits over threads, repeats and whichever are wanted",
          "[additive_backward][runtime][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for_each_additive_backward([&](const attune::VariantInfo &v, auto zero, AdditiveBackwardCase c) {
        SdpaCase &a = c.forward.attention;
        a.queries = 150, a.keys = 200, a.causal = Causal::bottom_right, a.softcap = 6, a.bias = "1hij", a.mask = "b1ij";
        a.alibi = Alibi::per_head, a.sinks = true, a.dropout = {0.2, 3, 1}, c.grad_lse = true;
        c.forward.b_query = c.forward.b_key = true;
        for (std::int64_t heads : {1, 2}) {
            a.batch = heads, a.query_heads = 2 * heads, a.key_heads = heads;
            AdditiveBackwardArrays<decltype(zero)> clean(c);
            REQUIRE(clean.run_forward(one).ok());
            auto expected = clean;
            REQUIRE(expected.run(one, v.name).ok());
            for (attune::Context *context : {&one, &two, &three, &seven, &seven}) {
                auto other = clean;
                CHECK(other.run(*context, v.name).ok());
                INFO("threads " << context->threads());
                CHECK(other.bits() == expected.bits());
            }
            for (unsigned wanted : {0x1u, 0x2u, 0x4u, 0x8u, 0x10u, 0x60u, 0x80u, 0x89u, 0x706u}) {
                auto some = clean;
                CHECK(some.run(seven, v.name, wanted).ok());
                INFO("wanted " << wanted);
                CHECK(some.bits(wanted) == expected.bits(wanted));
                unsigned n = 0;
                some.each_gradient([&](const char *name, auto &array, auto) {
                    INFO(name);
                    CHECK((array.untouched() || wanted >> n & 1));
                    n++;
                });
            }
        }
    });
}
