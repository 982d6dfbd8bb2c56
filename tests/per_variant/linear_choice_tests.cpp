// SPDX-License-Identifier: MIT
// Calls for which dispatch chooses the classes of linear's variants (docs/choosing-a-variant.md).
#include "tests/support/linear_case.h"
#include "tests/support/variant_grid.h"
#include <algorithm>
#include <map>

using namespace attune_test;

namespace {

template<typename T> std::string chosen_for(attune::Context &context, LinearArrays<T> &a) {
    REQUIRE(attune::linear(context, a.x.view(), a.weight_view(context), a.bias_view(), a.out.view()).ok());
    return std::string(context.last_variant());
}

// The fewest columns whose weights take so many bytes.
template<typename T> std::int64_t columns_of(std::int64_t bytes, std::int64_t depth) {
    const std::int64_t column = depth * std::int64_t(sizeof(T));
    return (bytes + column - 1) / column;
}

}  // namespace

TEST_CASE("linear variants: which weights classes of large weights are chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    const std::map<std::string, std::pair<std::int64_t, std::int64_t>> rows_of_class = {
        {"rows1_llc", {1, 1}}, {"rows1_mem", {1, 1}}, {"rows1_mem_set_conflict", {1, 1}},
        {"rows4_mem", {2, 4}}, {"rows8_mem", {5, 8}}, {"rows12_mem", {9, 12}}};
    for_each_variant("linear", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        const auto rows = rows_of_class.find(std::string(v.shape_class));
        if (rows == rows_of_class.end()) return;
        using T = decltype(zero);
        const bool aliased = v.shape_class == "rows1_mem_set_conflict";
        // Pairs of bf16 with one row have class rows1_llc before class rows1_mem.
        const bool edge = v.shape_class == "rows1_llc", behind_edge = v.shape_class == "rows1_mem" && v.schedule == "bf16_dot";
        const std::int64_t megabytes = behind_edge ? 48 : 32, depth = aliased ? 4096 : 4099;
        const std::int64_t columns_beyond = columns_of<T>(megabytes << 20, depth);
        const auto [fewest, most] = rows->second;
        const auto chosen = [&](std::int64_t rows, std::int64_t columns) {
            LinearArrays<T> a({.leading = {rows}, .columns = columns, .depth = depth, .order = Order::dense}, false);
            return chosen_for(context, a);
        };
        CHECK(chosen(fewest, columns_beyond) == v.name);
        CHECK(chosen(most, columns_beyond) == v.name);
        CHECK(chosen(most, columns_beyond - 1) != v.name);
        CHECK(chosen(most + 1, columns_beyond) != v.name);
        if (edge) CHECK(chosen(most, columns_of<T>(std::int64_t{48} << 20, depth)) != v.name);
    });
}

TEST_CASE("linear variants: which rows and depths class many_rows_mem is chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("linear", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        if (v.shape_class != "many_rows_mem") return;
        using T = decltype(zero);
        constexpr std::int64_t some_rows = 20, too_many_rows = 256;
        const std::int64_t large = std::int64_t{v.dtype == attune::DType::bf16 ? 32 : 8} << 20;
        const auto is_chosen = [&](std::int64_t rows, std::int64_t depth, std::int64_t fewer_columns) {
            const std::int64_t columns = columns_of<T>(large, depth) - fewer_columns;
            LinearArrays<T> a({.leading = {rows}, .columns = columns, .depth = depth, .order = Order::dense}, false);
            return chosen_for(context, a) == v.name;
        };
        constexpr std::int64_t shallow = 800, deep = 4099;
        CHECK(is_chosen(some_rows, deep, 0));
        CHECK_FALSE(is_chosen(some_rows, deep, 1));
        CHECK(is_chosen(some_rows, shallow, 0));
        CHECK(is_chosen(too_many_rows, deep, 0));
        CHECK_FALSE(is_chosen(too_many_rows, shallow, 0));
    });
}

TEST_CASE("linear variants: which depths class depth_in_cache of bf16_dot is chosen for, and what it refuses",
          "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for (std::string_view op : {"linear", "linear_packed"})
        for_each_variant(op, no_kind, [&](const attune::VariantInfo &v, auto zero) {
            if (v.shape_class != "depth_in_cache" || v.schedule != "bf16_dot") return;
            const auto arrays = [&](std::int64_t depth) {
                return LinearArrays<decltype(zero)>(
                    {.leading = {20}, .columns = 64, .depth = depth, .packed = op == "linear_packed", .order = Order::dense},
                    false);
            };
            const auto is_chosen = [&](std::int64_t depth) {
                auto a = arrays(depth);
                const bool chosen = chosen_for(context, a) == v.name;
                CHECK(defect(a) == "");
                return chosen;
            };
            CHECK(is_chosen(2));
            CHECK(is_chosen(1024));
            CHECK_FALSE(is_chosen(1023));
            CHECK_FALSE(is_chosen(1026));
            auto odd = arrays(1023);
            CHECK(message_defect(odd.run(context, v.name).message(), "variant", {std::string(v.name), "even", "1023"}) == "");
        });
}

TEST_CASE("linear variants: which columns classes of narrower tiles are chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    // By class: the most quarters of a wide tile that are too few for it, and the most that it takes.
    const std::map<std::string, std::pair<int, int>> quarters_of_class = {{"half_tile", {1, 2}},
                                                                          {"three_quarter_tile", {2, 3}}};
    for_each_variant("linear", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        const auto quarters = quarters_of_class.find(std::string(v.shape_class));
        if (quarters == quarters_of_class.end()) return;
        using T = decltype(zero);
        constexpr std::int64_t quarter = 256 / 4 / sizeof(T);
        const auto [too_few, most] = quarters->second;
        const auto chosen = [&](std::int64_t columns) {
            LinearArrays<T> a({.leading = {20}, .columns = columns, .depth = 33, .order = Order::dense}, false);
            const std::string name = chosen_for(context, a);
            CHECK(defect(a) == "");
            return name;
        };
        CHECK(chosen(too_few * quarter + 1) == v.name);
        CHECK(chosen(most * quarter) == v.name);
        CHECK(chosen(too_few * quarter) != v.name);
        CHECK(chosen(most * quarter + 1) != v.name);
        CHECK(chosen((8 + most) * quarter) != v.name);  // its class has only the last columns
    });
}

TEST_CASE("linear variants: which weights class rows1_set_conflict is chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("linear", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        if (v.shape_class != "rows1_set_conflict") return;
        using T = decltype(zero);
        constexpr std::int64_t sharing = 4096 / sizeof(T), columns = 20;  // fewer columns are narrow
        const auto is_chosen = [&](std::int64_t rows, std::int64_t depth, std::int64_t stride) {
            LinearArrays<T> a({.leading = {rows}, .columns = columns, .depth = depth, .order = Order::dense}, false);
            std::vector<T> memory(std::size_t(columns * stride));
            for (std::int64_t n = 0; n < columns; n++)
                std::copy_n(&a.weight.data()[n * depth], depth, &memory[std::size_t(n * stride)]);
            REQUIRE(attune::linear(context, a.x.view(), attune::ConstView(memory.data(), {columns, depth}, {stride, 1}),
                                   a.bias_view(), a.out.view())
                        .ok());
            CHECK(defect(a) == "");
            return context.last_variant() == v.name;
        };
        CHECK(is_chosen(1, sharing, sharing));
        CHECK(is_chosen(1, 40, 3 * sharing));
        CHECK_FALSE(is_chosen(1, 40, sharing + 1));
        CHECK_FALSE(is_chosen(1, 31, sharing));
        CHECK_FALSE(is_chosen(2, sharing, sharing));
    });
}

TEST_CASE("batch_dot variants: which rows and columns classes of few rows are chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    struct Range {
        std::int64_t fewest_rows, most_rows, fewest_columns, most_columns;
    };
    for_each_variant("batch_dot", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        constexpr bool widened = sizeof(T) < 4;
        constexpr std::int64_t wide = 256 / std::max<std::int64_t>(sizeof(T), 4), many = widened ? wide + 1 : 512, entries = 8;
        const std::map<std::string, Range> ranges = {
            {"rows1_many_columns", {1, 1, many, 0}},
            {"rows16_many_columns", {2, 16, many, 0}},
            {"rows8", {2, 8, wide / 2 + 1, many - 1}},
            {"rows8_half_tile", {2, 8, widened ? wide / 4 + 1 : 1, wide / 2}},
        };
        const auto range = ranges.find(std::string(v.shape_class));
        if (range == ranges.end()) return;
        const auto is_chosen = [&](std::int64_t rows, std::int64_t columns, std::int64_t count) {
            LinearArrays<T> a({.leading = {count, rows}, .columns = columns, .depth = 11, .order = Order::dense}, true);
            REQUIRE(attune::batch_dot(context, a.x.view(), a.weight.view(), a.out.view()).ok());
            return context.last_variant() == v.name;
        };
        const auto [fewest_rows, most_rows, fewest, most] = range->second;
        CHECK(is_chosen(fewest_rows, fewest, entries));
        CHECK(is_chosen(most_rows, fewest, entries));
        CHECK_FALSE(is_chosen(most_rows + 1, fewest, entries));
        if (fewest_rows > 1) CHECK_FALSE(is_chosen(fewest_rows - 1, fewest, entries));
        // Without a class rows8 of 16 bits, rows16_many_columns also takes fewer columns.
        const std::int64_t too_few = widened && v.shape_class == "rows16_many_columns" ? wide / 4 : fewest - 1;
        if (too_few > 0) CHECK_FALSE(is_chosen(fewest_rows, too_few, entries));
        if (most > 0) CHECK(is_chosen(most_rows, most, entries));
        if (most > 0) CHECK_FALSE(is_chosen(most_rows, most + 1, entries));
        if (most == 0) CHECK_FALSE(is_chosen(fewest_rows, fewest, entries - 1));  // too few for some threads
    });
}
