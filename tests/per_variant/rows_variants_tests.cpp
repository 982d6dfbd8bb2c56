// SPDX-License-Identifier: MIT
// Every variant of the steps on rows and of their gradients.
#include "tests/support/environment.h"
#include "tests/support/rows_case.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
// Calls f for each variant: transform_rows takes no name of a variant, so the environment forces it for a new Context.
template<typename F> void for_each_rows_variant(const std::string &op, const F &f) {
    for_each_variant(op, {""}, [&](const attune::VariantInfo &v, auto zero) {
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
        f(v, zero);
    });
}

// Steps that suit a head size, each alone and together.
std::vector<RowsCase> steps_for(std::int64_t head_dim) {
    const bool even = head_dim % 2 == 0, rotates = head_dim % 8 == 0;
    std::vector<RowsCase> all = {
        {}, {.norm = true}, {.norm = true, .weight_by_head = true}, {.norm = true, .weight_is_f32 = true}};
    if (head_dim >= 2)
        for (Pairs pairs : {Pairs::halves, Pairs::interleaved}) {
            if (even) all.push_back({.pairs = pairs}), all.push_back({.norm = true, .pairs = pairs, .own_tables = true});
            const std::int64_t part = std::max<std::int64_t>(head_dim / 4 * 2, 2);
            all.push_back({.pairs = pairs, .dim = part, .offset = (head_dim - part) / 2});
            all.push_back({.norm = true, .pairs = pairs, .dim = part, .offset = head_dim - part});
        }
    if (rotates) {
        all.push_back({.hadamard = true});
        for (Pairs pairs : {Pairs::halves, Pairs::interleaved}) all.push_back({.norm = true, .pairs = pairs, .hadamard = true});
    }
    for (RowsCase &c : all) c.head_dim = head_dim;
    return all;
}
constexpr std::int64_t head_dims[] = {1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 64, 66, 80, 96, 100, 128, 200, 256, 576};
}  // namespace

TEST_CASE("rows variants: head sizes and steps", "[rows][per_variant]") {
    for_each_rows_variant("transform_rows", [&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        unsigned seed = 1;
        for (std::int64_t head_dim : head_dims)
            for (RowsCase c : steps_for(head_dim)) {
                c.seed = seed++;
                check_case<decltype(zero)>(context, c);
                CHECK(context.last_variant() == v.name);
            }
    });
}

TEST_CASE("rows variants: numbers of rows, layouts, in place", "[rows][per_variant]") {
    for_each_rows_variant("transform_rows", [&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        const std::int64_t tile = parameter_of(v, "task_rows", 4);
        unsigned seed = 1;
        const RowsCase all{.head_dim = 40, .norm = true, .pairs = Pairs::halves, .dim = 20, .offset = 6, .hadamard = true};
        for (std::int64_t rows : sorted_sizes({1, 2, tile - 1, tile, tile + 1, 3 * tile + 5}))
            for (Layout layout : {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed,
                                  Layout::broadcast})
                for (bool in_place : {false, true}) {
                    RowsCase c = all;
                    c.rows = rows, c.layout = layout, c.in_place = in_place && layout != Layout::broadcast;
                    c.out_layout = layout == Layout::dense ? Layout::padded : Layout::bshd;
                    c.seed = seed++;
                    check_case<decltype(zero)>(context, c);
                    c.heads = 1, c.batch = 1;
                    check_case<decltype(zero)>(context, c);
                }
    });
}

TEST_CASE("rows variants: all schedules give the same bits, for any number of threads", "[rows][per_variant]") {
    const RowsCase all{
        .batch = 2, .heads = 5, .rows = 67, .head_dim = 96, .norm = true, .pairs = Pairs::halves, .hadamard = true};
    for_each_rows_variant("transform_rows", [&](const attune::VariantInfo &, auto zero) {
        using T = decltype(zero);
        static std::vector<T> first;
        for (int threads : {1, 2, 3, 4}) {
            attune::Context context({.threads = threads});
            RowsArrays<T> a(all);
            REQUIRE(a.run(context).ok());
            if (first.empty()) first = a.out.values();
            CHECK(same_bits(first, a.out.values()));
        }
    });
    for_each_rows_variant("transform_rows_backward", [&](const attune::VariantInfo &, auto zero) {
        using T = decltype(zero);
        static std::vector<T> first;
        static std::vector<Sum<T>> of_weight;
        for (int threads : {1, 2, 3, 4}) {
            attune::Context context({.threads = threads});
            RowsArrays<T> a(all);
            REQUIRE(a.run_backward(context).ok());
            if (first.empty()) first = a.grad_x.values(), of_weight = a.grad_weight.values();
            CHECK(same_bits(first, a.grad_x.values()));
            CHECK(same_bits(of_weight, a.grad_weight.values()));
        }
    });
}

TEST_CASE("rows variants: gradients", "[rows][per_variant]") {
    for_each_rows_variant("transform_rows_backward", [&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        unsigned seed = 1;
        for (std::int64_t head_dim : head_dims)
            for (RowsCase c : steps_for(head_dim)) {
                c.seed = seed++, c.rows = seed % 7 == 0 ? 71 : 5;
                c.layout = seed % 3 == 0 ? Layout::padded : seed % 3 == 1 ? Layout::bshd : Layout::dense;
                check_gradients<decltype(zero)>(context, c);
                CHECK(context.last_variant() == v.name);
            }
        for (std::int64_t rows : {1, 63, 64, 65, 130})
            check_gradients<decltype(zero)>(context, {.rows = rows, .head_dim = 24, .norm = true, .seed = seed++});
    });
}

TEST_CASE("rows variants: nothing beside the arrays is read or written", "[rows][per_variant]") {
    for (Fence fence : {Fence::before, Fence::behind})
        for (const std::string op : {"transform_rows", "transform_rows_backward"})
            for_each_rows_variant(op, [&](const attune::VariantInfo &, auto zero) {
                attune::Context context(in_fenced_scratch());
                unsigned seed = 1;
                for (std::int64_t head_dim : {1, 7, 8, 24, 40, 66, 80, 128})
                    for (RowsCase c : steps_for(head_dim)) {
                        c.batch = 1, c.heads = 2, c.rows = 3, c.seed = seed++;
                        const FencedArrays fenced(fence);
                        if (op == "transform_rows")
                            check_case<decltype(zero)>(context, c);
                        else
                            check_gradients<decltype(zero)>(context, c);
                    }
            });
}
