// SPDX-License-Identifier: MIT
// Every variant of masked_softmax, at sizes made from its block of keys and rows of a task.
#include "tests/support/masked_softmax_case.h"
#include "tests/support/variant_grid.h"
#include <cmath>
#include <map>

using namespace attune_test;
using attune::MaskFill;

namespace {
template<typename F> void for_each_softmax(const F &f) { for_each_wide_variant("masked_softmax", {""}, f); }

// Numbers of keys around a step: 1, step - 1, step, step + 1, primes.
std::vector<std::int64_t> awkward_widths(const attune::VariantInfo &v) {
    const int block = parameter_of(v, "block", 16);
    return sorted_sizes({1, 2, 3, 7, 13, block - 1, block, block + 1, 2 * block - 1, 3 * block, 5 * block + 7, 251});
}
}  // namespace

TEST_CASE("masked_softmax variants: sizes, lengths, fills", "[masked_softmax][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        const int rows = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        for (std::int64_t keys : awkward_widths(v))
            for (std::int64_t queries : {1, 2, rows, rows + 1})
                for (Lengths lengths : {Lengths::none, Lengths::per_batch, Lengths::per_query})
                    for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                        check_case<decltype(zero)>(
                            context, {.queries = queries, .keys = keys, .lengths = lengths, .fill = fill, .seed = seed++},
                            v.name);
    });
}

TEST_CASE("masked_softmax variants: heads and batch entries of one row", "[masked_softmax][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        unsigned seed = 1;
        for (const auto &[batch, heads, queries] : {std::tuple(33, 1, 1), {3, 21, 1}, {1, 1, 1}, {1, 1, 40}, {7, 5, 3}})
            for (Lengths lengths : {Lengths::none, Lengths::per_batch, Lengths::per_query})
                check_case<decltype(zero)>(
                    context,
                    {.batch = batch, .heads = heads, .queries = queries, .keys = 45, .lengths = lengths, .seed = seed++},
                    v.name);
    });
}

TEST_CASE("masked_softmax variants: layouts, and in place", "[masked_softmax][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        const int block = parameter_of(v, "block", 16);
        unsigned seed = 1;
        for (std::int64_t keys : {9, 2 * block, 2 * block + 5})
            for (Layout layout :
                 {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed})
                for (MaskFill fill : {MaskFill::zero, MaskFill::seed}) {
                    SoftmaxCase c{.queries = 6, .keys = keys, .fill = fill, .scores_layout = layout, .seed = seed++};
                    c.in_place = true;
                    check_case<decltype(zero)>(context, c, v.name);
                    c.in_place = false;
                    check_case<decltype(zero)>(context, c, v.name);
                    c.out_layout = layout == Layout::padded ? Layout::bshd : Layout::padded;
                    check_case<decltype(zero)>(context, c, v.name);
                }
        check_case<decltype(zero)>(context, {.heads = 3, .lengths = Lengths::none, .scores_layout = Layout::broadcast}, v.name);
    });
}

TEST_CASE("masked_softmax variants: large scores neither overflow nor vanish", "[masked_softmax][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        for (double spread : {0., 1e-3, 100., 1e4, 1e30})
            for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                check_case<decltype(zero)>(context, {.keys = 70, .fill = fill, .spread = spread}, v.name);
    });
}

TEST_CASE("masked_softmax variants: NaN and infinities", "[masked_softmax][per_variant]") {
    // A kept NaN or +inf makes its row NaN and no other; -inf has no weight, and only a row of -inf alone is NaN.
    attune::Context context(in_fenced_scratch());
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
        const std::int64_t block = parameter_of(v, "block", 16);
        for (std::int64_t keys : {block, 2 * block + 3})
            for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                for (std::int64_t at : {std::int64_t(0), std::min(block - 1, keys - 2), keys / 2, keys - 2}) {
                    INFO("keys " << keys << " fill " << int(fill) << " at " << at);
                    Array<T> scores({1, 1, 6, keys}), out({1, 1, 6, keys});
                    std::mt19937 random(3);
                    scores.randomise(random, 3);
                    scores(0, 0, 1, at) = nan, scores(0, 0, 2, at) = infinity, scores(0, 0, 3, at) = -infinity;
                    for (std::int64_t j = 0; j < keys; j++) scores(0, 0, 4, j) = -infinity;
                    const std::vector<std::int32_t> lens(6, std::int32_t(keys - 1));
                    const auto status = attune::masked_softmax(
                        context, scores.view(), out.view(),
                        {.valid_lens = attune::ConstView(lens.data(), {1, 6}), .fill = fill, .variant = v.name});
                    INFO(status.message());
                    REQUIRE(status.ok());
                    const auto kept = [&](std::int64_t i, auto f) {
                        bool all = true;
                        for (std::int64_t j = 0; j < keys - 1; j++) all = all && f(out(0, 0, i, j));
                        return all;
                    };
                    const auto is_nan = [](T x) { return std::isnan(x); };
                    const auto is_weight = [](T x) { return x >= 0 && x <= 1; };
                    CHECK(kept(0, is_weight));
                    CHECK(kept(1, is_nan));
                    CHECK(kept(2, is_nan));
                    CHECK(kept(3, is_weight));
                    CHECK(out(0, 0, 3, at) == 0);
                    CHECK(kept(5, is_weight));
                    if (fill == MaskFill::zero) {
                        CHECK(kept(4, is_nan));
                        for (std::int64_t i = 0; i < 6; i++) CHECK(out(0, 0, i, keys - 1) == 0);
                    } else {
                        CHECK(kept(4, [](T x) { return x == 0; }));  // the masked key has all the weight
                        CHECK(out(0, 0, 4, keys - 1) == 1);
                        CHECK(std::isnan(out(0, 0, 1, keys - 1)));
                    }
                }
    });
}

TEST_CASE("masked_softmax variants: bits do not depend on threads or neighbours", "[masked_softmax][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2});
    std::map<std::string, std::vector<double>> of_rows;  // by target and type, since the class depends on all rows
    for_each_softmax([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        SoftmaxArrays<T> a({.batch = 3, .heads = 4, .queries = 37, .keys = 300, .lengths = Lengths::per_batch}), b(a.c);
        REQUIRE(attune::masked_softmax(one, a.scores.view(), a.out.view(), a.options(v.name)).ok());
        const std::vector<T> all = a.out.values();
        const std::vector<double> bits(all.begin(), all.end());
        const std::string key = std::string(v.schedule) + std::string(v.target) + name_of(v.dtype);
        CHECK(same_bits(of_rows.emplace(key, bits).first->second, bits));
        REQUIRE(attune::masked_softmax(two, b.scores.view(), b.out.view(), b.options(v.name)).ok());
        CHECK(same_bits(a.out.values(), b.out.values()));
        // One row by itself, as (1, keys).
        Array<T> alone({1, 300});
        const std::int32_t length = std::int32_t(a.length(2, 0));
        REQUIRE(attune::masked_softmax(two, attune::ConstView(&a.scores(2, 3, 11, 0), {1, 300}), alone.view(),
                                       {.valid_lens = attune::ConstView(&length, {1}), .variant = v.name})
                    .ok());
        bool same = true;
        for (std::int64_t j = 0; j < 300; j++) same = same && same_bits(alone.data()[j], a.out(2, 3, 11, j));
        CHECK(same);
    });
}
