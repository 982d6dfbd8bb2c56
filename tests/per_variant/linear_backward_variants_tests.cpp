// SPDX-License-Identifier: MIT
// Every variant of transposed_dot, which computes the gradients of weights and biases, at sizes from its own parameters; and
// equal bits of all variants of a target (docs/conventions.md row 36).
#include "tests/support/linear_backward_case.h"
#include "tests/support/variant_grid.h"
#include <map>

using namespace attune_test;

namespace {
constexpr unsigned of_the_op = want_weight | want_bias_sum;
template<typename F> void for_each_transposed(const F &f) { for_each_variant("transposed_dot", {""}, f); }
}  // namespace

TEST_CASE("linear_backward variants: awkward sizes", "[linear_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_transposed([&](const attune::VariantInfo &v, auto zero) {
        const int depth_block = parameter_of(v, "depth_block", 256), tile = parameter_of(v, "tile_rows", 4),
                  task = parameter_of(v, "task_rows", 8), wide = parameter_of(v, "tile_columns", 8);
        const auto rows = sorted_sizes({1, 2, 7, 61, depth_block - 1, depth_block, depth_block + 1, 2 * depth_block + 3});
        const auto columns = sorted_sizes({1, 2, 13, tile - 1, tile, tile + 1, 15, 16, 17, task - 1, task, task + 1, 65, 130});
        const auto depths = sorted_sizes({1, 2, 3, wide / 4 + 1, wide - 1, wide, wide + 1, 2 * wide + 5});
        unsigned seed = 1;
        for (std::size_t round = 0; round < 2; round++)
            for (std::size_t n = 0; n < columns.size(); n++) {
                LinearCase c;
                c.leading = {rows[(n + 3 * round) % rows.size()]};
                if (n % 3 == 0) c.leading.insert(c.leading.begin(), 2);
                c.columns = columns[n], c.depth = depths[(n + 5 * round) % depths.size()];
                c.order = Order(n % 4), c.seed = seed++;
                check_backward<decltype(zero)>(context, c, v.name, of_the_op);
            }
    });
}

TEST_CASE("linear_backward variants: every rank in every layout", "[linear_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_transposed([&](const attune::VariantInfo &v, auto zero) {
        unsigned seed = 100;
        for (const std::vector<std::int64_t> &leading :
             {std::vector<std::int64_t>{}, {9}, {3, 5}, {2, 1, 7}, {2, 3, 1}, {1, 3, 4}, {3, 2, 5}})
            for (Order order : {Order::dense, Order::padded, Order::reversed, Order::swapped}) {
                LinearCase c;
                c.leading = leading, c.columns = 21, c.depth = 35, c.order = order, c.seed = seed++;
                check_backward<decltype(zero)>(context, c, v.name, of_the_op);
            }
    });
}

TEST_CASE("linear_backward variants: the same bits whatever the tiles, threads and strides", "[linear_backward][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    std::map<std::string, std::vector<double>> expected;
    int compared = 0;
    for_each_transposed([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        if (v.schedule == "root") return;  // runs only where forced, and is compiled without fused multiply-add
        for (const auto &[columns, depth] : {std::pair(101, 70), {64, 130}, {3, 200}, {130, 5}, {1, 1}})
            for (Order order : {Order::dense, Order::swapped}) {
                LinearCase c;
                c.leading = {3, 2, 217}, c.columns = columns, c.depth = depth, c.seed = 7, c.order = order;
                std::vector<double> bits;
                for (attune::Context *context : {&one, &two, &three, &seven}) {
                    LinearBackwardArrays<T> a(c);
                    INFO(v.name << ' ' << describe(c) << " threads " << context->threads());
                    REQUIRE(a.run(*context, v.name, of_the_op).ok());
                    std::vector<double> these;
                    for (Array<T> *array : {&a.grad_weight, &a.grad_bias})
                        for (T x : array->values()) these.push_back(double(x));
                    if (bits.empty()) bits = these;
                    CHECK(same_bits(bits, these));
                }
                const std::string key = std::string(v.target) + name_of(v.dtype) + std::to_string(columns);
                const auto [found, first] = expected.emplace(key, bits);
                if (!first) compared++;
                CHECK(same_bits(found->second, bits));
            }
    });
    CHECK(compared > 0);
}

// Padding with arbitrary contents stays out of a weight's gradient; rows with a gradient do not.
TEST_CASE("linear_backward variants: rows without a gradient take no part", "[linear_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_transposed([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
        for (int columns : {1, 19, 70, 130}) {
            LinearCase c;
            c.leading = {300}, c.columns = columns, c.depth = 23, c.seed = 3;
            LinearBackwardArrays<T> clean(c), spoiled(c);
            for (LinearBackwardArrays<T> *a : {&clean, &spoiled})
                for (int row : {0, 7, 256, 299})
                    for (int n = 0; n < columns; n++) a->grad_out.data()[row * columns + n] = n % 2 ? T(0) : T(-0.0);
            for (int row : {0, 7, 256, 299})
                for (int k = 0; k < 23; k++) spoiled.layer.x.data()[row * 23 + k] = k % 2 ? nan : T(-infinity);
            for (LinearBackwardArrays<T> *a : {&clean, &spoiled}) REQUIRE(a->run(context, v.name, of_the_op).ok());
            INFO(v.name << " columns " << columns);
            CHECK(defect(spoiled, of_the_op) == "");
            CHECK(same_bits(clean.grad_weight.values(), spoiled.grad_weight.values()));

            // A single nonzero element makes a row take part, and NaN stays in its row and column.
            LinearBackwardArrays<T> seen(c);
            seen.layer.x.data()[5 * 23 + 4] = nan, seen.grad_out.data()[9 * columns + columns / 2] = nan;
            for (int n = 0; n < columns; n++) seen.grad_out.data()[5 * columns + n] = T(n == columns - 1 ? 1e-3 : 0);
            LinearBackwardArrays<T> without(c);
            for (int n = 0; n < columns; n++) without.grad_out.data()[5 * columns + n] = seen.grad_out.data()[5 * columns + n];
            REQUIRE(seen.run(context, v.name, of_the_op).ok());
            REQUIRE(without.run(context, v.name, of_the_op).ok());
            for (int n = 0; n < columns; n++)
                for (int k = 0; k < 23; k++) {
                    const T result = seen.grad_weight.data()[n * 23 + k];
                    INFO("row " << n << " column " << k << ": " << result);
                    if (n == columns / 2 || k == 4)
                        REQUIRE(std::isnan(result));
                    else
                        REQUIRE(same_bits(result, without.grad_weight.data()[n * 23 + k]));
                }
            CHECK(std::isnan(seen.grad_bias.data()[columns / 2]));
        }
    });
}

TEST_CASE("linear_backward variants: long sums", "[linear_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_transposed([&](const attune::VariantInfo &v, auto zero) {
        LinearCase c;
        c.columns = 3, c.depth = 5, c.seed = 11;
        for (std::int64_t rows : {4096, 9001}) {
            c.leading = {rows};
            check_backward<decltype(zero)>(context, c, v.name, of_the_op);
        }
        c.spread = std::is_same_v<decltype(zero), Float16> ? 10 : 1e4;  // the largest f16 is 65504
        check_backward<decltype(zero)>(context, c, v.name, of_the_op);
    });
}
