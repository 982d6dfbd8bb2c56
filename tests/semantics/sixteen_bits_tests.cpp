// SPDX-License-Identifier: MIT
// bf16 and f16 through the dispatcher: sdpa, linear and multi-head attention, and the statements of docs/numerics.md.
#include "tests/support/linear_case.h"
#include "tests/support/multi_head_case.h"
#include <functional>

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View, attune::WeightsMode;

namespace {
template<typename F> void in_both(const F &f) { f(BFloat16{}), f(Float16{}); }
}  // namespace

TEST_CASE("16 bits: sdpa over sizes, masks and options", "[sdpa][semantics]") {
    attune::Context context({.threads = 2});
    const std::vector<std::function<void(SdpaCase &)>> options = {
        [](SdpaCase &) {},
        [](SdpaCase &c) { c.causal = Causal::bottom_right; },
        [](SdpaCase &c) {
            c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)}, c.window = {40, 30};
        },
        [](SdpaCase &c) { c.bias = "hij", c.hole = -std::numeric_limits<double>::infinity(), c.mask = "b11j"; },
        [](SdpaCase &c) { c.softcap = 5, c.alibi = Alibi::standard, c.sinks = true, c.causal = Causal::top_left; },
        [](SdpaCase &c) {
            c.dropout = {0.3, 7, 1}, c.causal = Causal::bottom_right;
        },
        [](SdpaCase &c) { c.weights = WeightsMode::probabilities, c.query_layout = c.out_layout = Layout::bshd; },
        [](SdpaCase &c) { c.weights = WeightsMode::masked, c.mask = "ij", c.average_weights = true; },
    };
    in_both([&](auto zero) {
        unsigned seed = 1;
        for (const auto &set : options)
            for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {128, 128}, {80, 80}, {33, 7}})
                for (const auto &[queries, keys] : {std::pair(1, 300), {5, 17}, {40, 64}, {130, 200}}) {
                    SdpaCase c{.query_heads = 4, .queries = queries, .keys = keys, .head_dim = head_dim, .seed = seed++};
                    c.value_dim = value_dim;
                    if (seed % 3 == 0) c.query_heads = 2;
                    set(c);
                    check_case<decltype(zero)>(context, c);
                }
    });
}

TEST_CASE("16 bits: a batch entry's bits do not depend on others, nor on threads", "[sdpa][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), seven({.threads = 7});
    in_both([&](auto zero) {
        using T = decltype(zero);
        for (const auto &[queries, keys] : {std::pair(1, 700), {6, 90}, {100, 130}, {200, 50}})
            for (bool masked : {false, true}) {
                SdpaCase c{.batch = 3, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys};
                if (masked) c.causal = Causal::bottom_right, c.valid_lens = {std::int32_t(keys), 3, std::int32_t(keys - 1)};
                SdpaArrays<T> all(c), other(c), spoiled(c);
                INFO(describe(c));
                REQUIRE(all.run(one).ok());
                for (attune::Context *context : {&two, &seven}) {
                    REQUIRE(other.run(*context).ok());
                    CHECK(same_bits(all.out.values(), other.out.values()));
                    CHECK(same_bits(all.lse.values(), other.lse.values()));
                }
                for (std::int64_t b : {0, 2}) spoiled.value(b, 1, 0, 5) = std::numeric_limits<T>::quiet_NaN();
                REQUIRE(spoiled.run(two).ok());
                bool same = true;
                for (std::int64_t h = 0; h < 4; h++)
                    for (std::int64_t i = 0; i < queries; i++)
                        for (std::int64_t d = 0; d < 64; d++)
                            same = same && same_bits(all.out(1, h, i, d), spoiled.out(1, h, i, d));
                CHECK(same);
            }
    });
}

TEST_CASE("16 bits: linear and batch_dot, and rows that know only themselves", "[linear][semantics]") {
    attune::Context context({.threads = 2});
    in_both([&](auto zero) {
        using T = decltype(zero);
        unsigned seed = 1;
        for (const std::vector<std::int64_t> &leading : {std::vector<std::int64_t>{}, {1}, {70}, {3, 2, 5}})
            for (const auto &[columns, depth] : {std::pair(1, 1), {3, 18}, {100, 101}, {64, 513}})
                for (bool batched : {false, true}) {
                    if (batched && leading.empty()) continue;
                    LinearCase c{.leading = leading, .columns = columns, .depth = depth, .bias = seed % 2 == 0, .seed = seed};
                    c.order = Order(seed++ % 4);
                    check_case<T>(context, c, batched);
                }
        for (const auto &[columns, depth] : {std::pair(130, 700), {3, 301}, {60, 33}}) {
            LinearArrays<T> all({.leading = {75}, .columns = columns, .depth = depth});
            REQUIRE(all.run(context).ok());
            const std::vector<T> expected = all.out.values();
            for (std::int64_t row : {0, 26, 74}) {
                Array<T> out({columns});
                const ConstView x(all.x.data() + row * depth, {depth});
                REQUIRE(attune::linear(context, x, all.weight.view(), all.bias_view(), out.view()).ok());
                CHECK(same_bits(out.values(),
                                std::vector<T>(expected.begin() + row * columns, expected.begin() + (row + 1) * columns)));
            }
        }
    });
}

TEST_CASE("16 bits: multi-head attention", "[mha][semantics]") {
    attune::Context context({.threads = 2});
    in_both([&](auto zero) {
        unsigned seed = 300;
        for (bool self : {false, true})
            for (const auto &[heads, key_heads] : {std::pair(4, 4), {6, 2}})
                for (const auto &[queries, keys] : {std::pair(20, 30), {70, 50}})
                    for (bool masked : {false, true}) {
                        MultiHeadCase c{.attention = {.query_heads = heads, .key_heads = key_heads, .seed = seed++}};
                        c.attention.queries = queries, c.attention.keys = self ? queries : keys;
                        c.self = self, c.packed = seed % 4 < 2;
                        c.attention.head_dim = c.attention.value_dim = seed % 3 ? 64 : 24;
                        c.query_bias = c.value_bias = seed % 2, c.out_bias = c.strided = seed % 3 == 0;
                        if (masked) c.attention.causal = Causal::top_left, c.attention.weights = WeightsMode::probabilities;
                        check_case<decltype(zero)>(context, c);
                    }
    });
}

TEST_CASE("16 bits: sums are kept in f32", "[sdpa][linear][semantics]") {
    attune::Context context;
    in_both([&](auto zero) {
        using T = decltype(zero);
        // 4096 ones add up to 4096; in the type itself the sum would stop at 256 or 2048.
        LinearArrays<T> a({.leading = {3}, .columns = 2, .depth = 4096, .bias = false});
        for (Array<T> *array : {&a.x, &a.weight}) array->each([](T &x) { x = 1; });
        REQUIRE(a.run(context).ok());
        a.out.each([](T &x) { CHECK(x == 4096); });
        // Weights of 1/3000, which no 16-bit type holds, add up to 1, and the scores are all equal.
        SdpaArrays<T> b({.queries = 2, .keys = 3000});
        b.query.each([](T &x) { x = 0; });
        b.value.each([](T &x) { x = 1; });
        REQUIRE(b.run(context).ok());
        b.out.each([](T &x) { CHECK(std::abs(x - 1) <= std::numeric_limits<T>::epsilon() / 2); });
        b.lse.each([](float &x) { CHECK(std::abs(x - std::log(3000.f)) < 1e-5f); });
    });
}
