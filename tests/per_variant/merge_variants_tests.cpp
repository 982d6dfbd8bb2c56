// SPDX-License-Identifier: MIT
// Every variant of merge, at sizes made from the rows of its tasks.
#include "tests/support/environment.h"
#include "tests/support/merge_case.h"
#include "tests/support/merge_parts_case.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
// Calls f for each variant: merge_attention takes no name of a variant, so the environment forces it for a new Context.
template<typename F> void for_each_merge(const F &f) {
    for_each_variant("merge", {""}, [&](const attune::VariantInfo &v, auto zero) {
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
        f(v, zero);
    });
}
}  // namespace

TEST_CASE("merge variants: sizes", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        const std::int64_t rows = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        for (std::int64_t width : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 80, 251})
            for (std::int64_t queries : sorted_sizes({1, 2, 13, rows - 1, rows, rows + 1, 2 * rows + 3})) {
                const MergeCase c{.queries = queries, .value_dim = width, .seed = seed++};
                check_case<decltype(zero)>(context, c);
                CHECK(context.last_variant() == v.name);
            }
        for (const auto &[batch, heads, queries] : {std::tuple(33, 1, 1), {3, 21, 1}, {1, 1, 1}, {1, 1, 70}, {7, 5, 3}})
            check_case<decltype(zero)>(context, MergeCase{.batch = batch, .heads = heads, .queries = queries, .seed = seed++});
    });
}

TEST_CASE("merge variants: parts without keys, and weights of every size", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        const std::int64_t rows = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        for (double spread : {0., 1e-3, 1., 30., 1e4, 1e30})
            for (std::int64_t queries : {std::int64_t(1), rows + 5})
                for (bool some_empty : {false, true})
                    check_case<decltype(zero)>(context, {.queries = queries, .lse_spread = spread, .seed = seed++}, some_empty);
    });
}

TEST_CASE("merge variants: layouts, in place, without lse", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        const std::int64_t rows = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        for (std::int64_t queries : {std::int64_t(1), std::int64_t(6), rows + 1})
            for (Layout layout :
                 {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed})
                for (bool strided : {false, true})
                    for (int in_place : {0, 1, 2}) {
                        MergeCase c{.queries = queries, .layout_a = layout, .strided_lse = strided, .in_place = in_place};
                        c.layout_b = layout == Layout::padded || in_place == 2 ? layout : Layout::padded;
                        c.out_layout = layout == Layout::dense ? Layout::bshd : Layout::dense;
                        c.seed = seed++;
                        check_case<decltype(zero)>(context, c, true);
                        c.wants_lse = false;
                        if (in_place == 0) check_case<decltype(zero)>(context, c);
                    }
    });
}

TEST_CASE("merge variants: bits do not depend on threads or neighbours", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &, auto zero) {
        using T = decltype(zero);
        attune::Context one({.threads = 1}), seven({.threads = 7});
        const MergeCase c{.batch = 3, .heads = 4, .queries = 217, .value_dim = 70};
        MergeArrays<T> a(c), b(c), alone(c);
        REQUIRE(a.run(one).ok());
        REQUIRE(b.run(seven).ok());
        CHECK(same_bits(a.out.values(), b.out.values()));
        CHECK(same_bits(a.lse.values(), b.lse.values()));
        // One row by itself.
        const auto row = [](auto &array, std::int64_t width) {
            auto v = array.view();
            v.data = width ? static_cast<void *>(&array(1, 2, 100, 0)) : static_cast<void *>(&array(1, 2, 100));
            for (int n = 0; n < 3; n++) v.extent[n] = 1;
            return v;
        };
        REQUIRE(attune::merge_attention(seven, row(b.out_a, 70), row(b.lse_a, 0), row(b.out_b, 70), row(b.lse_b, 0),
                                        row(alone.out, 70), row(alone.lse, 0))
                    .ok());
        bool same = same_bits(alone.lse(1, 2, 100), a.lse(1, 2, 100));
        for (std::int64_t d = 0; d < 70; d++) same = same && same_bits(alone.out(1, 2, 100, d), a.out(1, 2, 100, d));
        CHECK(same);
    });
}

TEST_CASE("merge variants: from one to nine parts", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        const std::int64_t rows = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        for (std::size_t parts = 1; parts <= 9; parts++) {
            for (const std::int64_t width : {1, 8, 33, 64})
                for (const std::int64_t queries : {std::int64_t(1), rows + 1})
                    for (const bool some_empty : {false, true})
                        check_case<decltype(zero)>(context, MergePartsCase{.parts = parts,
                                                                           .queries = queries,
                                                                           .value_dim = width,
                                                                           .some_empty = some_empty,
                                                                           .seed = seed++});
            for (const double spread : {0., 30., 1e4, 1e30})
                check_case<decltype(zero)>(context, MergePartsCase{.parts = parts, .lse_spread = spread, .seed = seed++});
            CHECK(context.last_variant() == v.name);
        }
    });
}

TEST_CASE("merge variants: layouts of parts, in place, without lse", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &, auto zero) {
        attune::Context context(in_fenced_scratch());
        unsigned seed = 1;
        for (const std::size_t parts : {std::size_t(2), std::size_t(4), std::size_t(7)})
            for (const bool strided : {false, true})
                for (int in_place = -1; in_place < int(parts); in_place++) {
                    MergePartsCase c{.parts = parts, .queries = 6, .strided_lse = strided, .in_place = in_place};
                    c.layouts = {Layout::padded, Layout::bshd, Layout::dense, Layout::shifted, Layout::reversed};
                    c.some_empty = true, c.seed = seed++;
                    check_case<decltype(zero)>(context, c);
                    c.wants_lse = false;
                    if (in_place < 0) check_case<decltype(zero)>(context, c);
                }
    });
}

TEST_CASE("merge variants: two parts have the bits of the function of two", "[merge][per_variant]") {
    for_each_merge([&](const attune::VariantInfo &, auto zero) {
        using T = decltype(zero);
        attune::Context one({.threads = 1}), seven({.threads = 7});
        for (const double spread : {0., 4., 100.}) {
            MergeCase c{.batch = 3, .heads = 4, .queries = 217, .value_dim = 70, .lse_spread = spread};
            MergeArrays<T> pair(c), listed(c);
            pair.empty_some_rows(), listed.empty_some_rows();
            REQUIRE(pair.run(one).ok());
            const attune::PartialAttention parts[] = {{listed.out_a.view(), listed.lse_a.view()},
                                                      {listed.out_b.view(), listed.lse_b.view()}};
            REQUIRE(attune::merge_attention(seven, parts, 2, listed.out.view(), listed.lse.view()).ok());
            CHECK(same_bits(pair.out.values(), listed.out.values()));
            CHECK(same_bits(pair.lse.values(), listed.lse.values()));
        }
        // Threads and neighbours, where parts are added in turns.
        MergePartsCase c{.parts = 9, .batch = 3, .heads = 4, .queries = 117, .value_dim = 70};
        MergePartsArrays<T> a(c), b(c);
        REQUIRE(a.run(one).ok());
        REQUIRE(b.run(seven).ok());
        CHECK(same_bits(a.out.values(), b.out.values()));
        CHECK(same_bits(a.lse.values(), b.lse.values()));
    });
}
