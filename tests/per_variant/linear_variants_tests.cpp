// SPDX-License-Identifier: MIT
// Every variant of linear, with packed weights, too, and of batch_dot at sizes from its own parameters, in every layout; and
// equal bits of all variants of a target, whatever rows a call has beside a row (docs/conventions.md row 36).
#include "tests/support/linear_case.h"
#include "tests/support/refusals.h"
#include "tests/support/variant_grid.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

using namespace attune_test;

namespace {

constexpr std::string_view linear_packed = "linear_packed";

struct Sizes {
    std::vector<std::int64_t> rows, columns, depths;
};

// Sizes around each parameter: one less, equal, one more; root has no parameters and takes small sizes.
Sizes awkward_sizes_of(const attune::VariantInfo &v) {
    const int depth_block = parameter_of(v, "depth_block", 256), tile = parameter_of(v, "tile_rows", 4),
              task = parameter_of(v, "task_rows", 8), wide = parameter_of(v, "tile_columns", 8),
              block = parameter_of(v, "block", 4),
              group = std::max(parameter_of(v, "tile_depth_blocks", 1), parameter_of(v, "interleaved_blocks", 1)) * depth_block;
    return {sorted_sizes({1, 2, 13, tile - 1, tile, tile + 1, 3 * tile + 2, task - 1, task, task + 1}),
            sorted_sizes({1, 2, 3, wide / 4 + 1, wide - 1, wide, wide + 1, 2 * wide + 5, v.op == linear_packed ? 129 : 1}),
            sorted_sizes({1, 2, 7, block - 1, block, block + 1, 61, depth_block - 1, depth_block, depth_block + 1,
                          2 * depth_block + 3, group - 1, group, group + 1, 2 * group + depth_block + 3})};
}

std::int64_t round_up(std::int64_t n, int to) { return (n + to - 1) / to * to; }

// Columns that a variant takes: classes of full tiles need columns that fill their tiles; with AMX tiles at least 32 columns
// (any of a packed weight), and depths that fill the tiles.
std::int64_t columns_for(const attune::VariantInfo &v, std::int64_t columns) {
    if (!takes_full_tiles(v) || v.op == linear_packed) return columns;
    return takes_full_amx_tiles(v) ? std::max<std::int64_t>(columns, 32) : round_up(columns, columns_of_full_tiles(v));
}
// Least depth of variants for one row or few, which take weights in blocks. Class depth_in_cache of bf16_dot takes even depths
// only.
constexpr std::int64_t depth_of_row = 32;
bool takes_blocks(const attune::VariantInfo &v) { return v.op == "linear" && is_for_few_rows(v); }
std::int64_t depth_for(const attune::VariantInfo &v, std::int64_t depth) {
    if (takes_blocks(v)) return std::max(depth, depth_of_row);
    if (v.schedule == "bf16_dot" && v.shape_class == "depth_in_cache") return round_up(depth, 2);
    return takes_full_amx_tiles(v) ? round_up(depth, 32) : depth;
}

// Key of the order of sums: schedules with the same key give the same bits.
std::string order_of_sums(const attune::VariantInfo &v) { return std::string(v.schedule == "amx_gemv" ? "amx" : v.schedule); }

template<typename F> void for_each_linear(const F &f) {
    for (std::string_view op : {std::string_view("linear"), linear_packed, std::string_view("batch_dot")})
        for_each_variant(op, no_kind, [&](const attune::VariantInfo &v, auto zero) { f(v, zero, op == "batch_dot"); });
}

}  // namespace

TEST_CASE("linear variants: awkward sizes", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool batched) {
        const Sizes s = awkward_sizes_of(v);
        unsigned seed = 1;
        for (std::size_t round = 0; round < 2; round++)
            for (std::size_t n = 0; n < std::max({s.rows.size(), s.columns.size(), s.depths.size()}); n++) {
                LinearCase c;
                c.packed = v.op == linear_packed;
                c.leading = {s.rows[n % s.rows.size()]};
                if (n % 3 == 0) c.leading.insert(c.leading.begin(), 2);
                c.columns = columns_for(v, s.columns[(n + 3 * round) % s.columns.size()]);
                c.depth = depth_for(v, s.depths[(n + 5 * round) % s.depths.size()]);
                c.bias = n % 2, c.order = Order(n % 4), c.seed = seed++;
                if (v.schedule == "bf16_dot" && c.depth == 1) continue;  // refused: a depth of 1 has no pair
                check_case<decltype(zero)>(context, c, batched, v.name);
            }
    });
}

TEST_CASE("linear variants: every rank in every layout", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool batched) {
        unsigned seed = 100;
        for (const std::vector<std::int64_t> &leading :
             {std::vector<std::int64_t>{}, {9}, {3, 5}, {2, 1, 7}, {2, 3, 1}, {1, 3, 4}, {3, 2, 5}}) {
            if (batched && leading.empty()) continue;
            for (Order order : {Order::dense, Order::padded, Order::reversed, Order::swapped}) {
                LinearCase c;
                c.packed = v.op == linear_packed;
                c.leading = leading, c.columns = columns_for(v, 21), c.depth = depth_for(v, 35), c.order = order,
                c.seed = seed++;
                check_case<decltype(zero)>(context, c, batched, v.name);
            }
        }
    });
}

// Equal bits let dispatch depend on the number of rows, and layers pack their weights.
TEST_CASE("linear variants: the same bits whatever the tiles, threads and other rows", "[linear][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2});
    std::map<std::string, std::vector<double>> expected;
    int compared = 0;
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool batched) {
        using T = decltype(zero);
        if (v.schedule == "root") return;  // runs only where forced, and is compiled without fused multiply-add
        for (const auto &[some_columns, some_depth] :
             {std::pair(101, 704), {64, 512}, {33, 96}, {3, 1000}, {1, 17}, {70, 2350}}) {
            const std::int64_t columns = columns_for(v, some_columns), depth = depth_for(v, some_depth);
            LinearCase c;
            c.packed = v.op == linear_packed;
            c.leading = {1, 37}, c.columns = columns, c.depth = depth, c.seed = 7;
            LinearArrays<T> a(c, batched);
            INFO(v.name << ' ' << describe(c));
            REQUIRE(a.run(two, v.name).ok());
            const std::vector<T> all = a.out.values();
            const std::vector<double> bits(all.begin(), all.end());
            const std::string key = std::string(batched ? "batch_dot" : "linear") + std::string(v.target) + name_of(v.dtype) +
                                    order_of_sums(v) + std::to_string(columns) + ' ' + std::to_string(depth);
            const auto [found, first] = expected.emplace(key, bits);
            if (!first) compared++;
            CHECK(same_bits(found->second, bits));
            REQUIRE(a.run(one, v.name).ok());
            CHECK(same_bits(all, a.out.values()));
            // Row 30 by itself.
            LinearArrays<T> alone(c, batched);
            attune::View x = alone.x.view(), out = alone.out.view();
            x.data = &alone.x.data()[30 * c.depth], out.data = &alone.out.data()[30 * c.columns];
            x.extent[1] = out.extent[1] = 1;
            const attune::LinearOptions options{.variant = v.name};
            const auto status = batched ? attune::batch_dot(two, x, alone.weight.view(), out, options)
                                        : attune::linear(two, x, alone.weight_view(two), alone.bias_view(), out, options);
            REQUIRE(status.ok());
            for (std::int64_t n = 0; n < columns; n++)
                REQUIRE(same_bits(alone.out.data()[30 * columns + n], all[std::size_t(30 * columns + n)]));
        }
    });
    CHECK(compared > 0);
}

// Vectors of one row begin where cache lines of the weight do.
TEST_CASE("linear variants: one row has the same bits wherever the weight lies", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool) {
        using T = decltype(zero);
        if (!takes_blocks(v)) return;
        constexpr std::int64_t line = 64 / sizeof(T), columns = 19;
        for (std::int64_t depth : {32, 33, 47, 64, 255, 258, 700}) {
            const std::int64_t whole_lines = (depth + line - 1) / line * line;
            LinearArrays<T> a({.leading = {1}, .columns = columns, .depth = depth, .order = Order::dense}, false);
            REQUIRE(a.run(context, v.name).ok());
            CHECK(defect(a) == "");
            for (std::int64_t stride : {whole_lines, whole_lines + 3})
                for (std::int64_t ahead = 0; ahead <= line; ahead++) {
                    // NaN between rows must not enter a sum.
                    std::unique_ptr<T, decltype(&std::free)> memory(
                        static_cast<T *>(std::aligned_alloc(64, std::size_t((ahead + stride * columns + line) / line * 64))),
                        &std::free);
                    T *first = memory.get() + ahead;
                    std::fill(memory.get(), memory.get() + (ahead + stride * columns), std::numeric_limits<T>::quiet_NaN());
                    for (std::int64_t n = 0; n < columns; n++)
                        std::copy_n(a.weight.data() + n * depth, depth, first + n * stride);
                    Array<T> out({1, columns});
                    const attune::ConstView weight(first, {columns, depth}, {stride, 1});
                    REQUIRE(attune::linear(context, a.x.view(), weight, a.bias_view(), out.view(), {.variant = v.name}).ok());
                    INFO(v.name << " depth " << depth << " stride " << stride << " begins " << ahead
                                << " elements into a line");
                    CHECK(same_bits(out.values(), a.out.values()));
                }
        }
        LinearArrays<T> small({.leading = {1}, .columns = columns, .depth = depth_of_row - 1}, false);
        CHECK(message_defect(small.run(context, v.name).message(), "variant",
                             {std::string(v.name), std::to_string(depth_of_row), std::to_string(depth_of_row - 1)}) == "");
        CHECK(small.out.untouched());
        REQUIRE(small.run(context).ok());
        CHECK(context.last_variant() != v.name);
    });
}

TEST_CASE("linear variants: NaN and Inf stay in their row and column", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool batched) {
        using T = decltype(zero);
        LinearCase c;
        c.packed = v.op == linear_packed;
        const int columns = int(columns_for(v, 19)), last = columns - 1, depth = int(depth_for(v, 300));
        c.leading = {11}, c.columns = columns, c.depth = depth, c.seed = 3;
        LinearArrays<T> clean(c, batched), a(c, batched);
        const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
        // Element (n, k) of the weights.
        const auto weight = [&](int n, int k) -> T & { return a.weight.data()[batched ? k * columns + n : n * depth + k]; };
        a.x.data()[4 * depth + depth - 1] = nan, a.x.data()[10 * depth] = infinity;
        weight(last, depth - 1) = nan, weight(0, 5) = -infinity;
        REQUIRE(clean.run(context, v.name).ok());
        REQUIRE(a.run(context, v.name).ok());
        for (int m = 0; m < 11; m++)
            for (int n = 0; n < columns; n++) {
                const T result = a.out.data()[m * columns + n];
                INFO(v.name << " row " << m << " column " << n << ": " << result);
                if (m == 4 || n == last)
                    REQUIRE(std::isnan(result));
                else if (m == 10 || n == 0)
                    REQUIRE(!std::isfinite(result));
                else
                    REQUIRE(same_bits(result, clean.out.data()[m * columns + n]));
            }
    });
}

TEST_CASE("linear variants: long sums", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_linear([&](const attune::VariantInfo &v, auto zero, bool batched) {
        LinearCase c;
        c.packed = v.op == linear_packed;
        c.leading = {3}, c.columns = columns_for(v, 5), c.seed = 11;
        for (std::int64_t depth : {4096, 9001}) {
            c.depth = depth_for(v, depth);
            check_case<decltype(zero)>(context, c, batched, v.name);
        }
        c.spread = std::is_same_v<decltype(zero), Float16> ? 20 : 1e4;  // the largest f16 is 65504
        check_case<decltype(zero)>(context, c, batched, v.name);
    });
}

// The place of every element is defined in attune/linear.h.
TEST_CASE("pack_linear_weight variants: every element in its place", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("pack_linear_weight", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const std::int64_t block = parameter_of(v, "block", 4), pair = v.dtype == attune::DType::bf16 ? 2 : 1;
        std::mt19937 random(5);
        for (std::int64_t columns : sorted_sizes({1, block - 1, block + 1, 63, 64, 65, 200}))
            for (std::int64_t depth : sorted_sizes({1, 2, block - 1, block, pair * block, pair * block + 1, 131}))
                for (Order order : {Order::dense, Order::padded, Order::reversed}) {
                    Array<T> weight = array_of<T>(order, {columns, depth});
                    weight.randomise(random, 1);
                    const auto extents = attune::packed_weight_extents(v.dtype, columns, depth);
                    Array<T> packed(std::vector(extents.begin(), extents.end()));
                    INFO(v.name << " (" << columns << ", " << depth << ") order " << int(order));
                    REQUIRE(attune::pack_linear_weight(context, weight.view(), packed.view(), {.variant = v.name}).ok());
                    CHECK(context.last_variant() == v.name);
                    std::vector<T> expected(std::size_t(extents[0] * extents[1] * extents[2]), T(0)), given = weight.values();
                    for (std::int64_t n = 0; n < columns; n++)
                        for (std::int64_t k = 0; k < depth; k++)
                            expected[std::size_t((n / 64 * extents[1] + k / pair) * extents[2] + n % 64 * pair + k % pair)] =
                                given[std::size_t(n * depth + k)];
                    CHECK(same_bits(packed.values(), expected));
                    CHECK(packed.gaps_untouched());
                }
    });
}

TEST_CASE("linear variants: what weights read as AMX tiles refuse, and what they are not chosen for", "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("linear", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        if (v.shape_class != "rows32_full_tiles") return;
        using T = decltype(zero);
        const auto refused = [&](std::int64_t columns, std::int64_t depth, const std::string &needed, const std::string &got) {
            LinearArrays<T> a({.leading = {5}, .columns = columns, .depth = depth}, false);
            const attune::Status status = a.run(context, v.name);
            CHECK(message_defect(status.message(), "variant", {std::string(v.name), needed, got}) == "");
            CHECK(a.out.untouched());
        };
        refused(64, 33, "32", "33");
        refused(31, 64, "32", "31");
        const auto chosen = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
            LinearArrays<T> a({.leading = {rows}, .columns = columns, .depth = depth}, false);
            REQUIRE(a.run(context).ok());
            return context.last_variant();
        };
        CHECK(chosen(33, 33, 64) != v.name);
        CHECK(chosen(5, 31, 64) != v.name);
        CHECK(chosen(5, 33, 63) != v.name);
    });
}

// Such a weight is a part of a larger array.
TEST_CASE("linear_packed variants: panels that do not follow each other are no matrix of whole AMX tiles",
          "[linear][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("linear_packed", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        if (!takes_full_amx_tiles(v)) return;
        using T = decltype(zero);
        for (const std::int64_t rows : {1, 40}) {
            LinearArrays<T> dense({.leading = {rows}, .columns = 200, .depth = 64, .packed = true}, false);
            REQUIRE(dense.run(context, v.name).ok());
            Array<T> apart({4, 33, 128});
            std::fill_n(apart.data(), 4 * 33 * 128, T(std::numeric_limits<float>::quiet_NaN()));
            const attune::ConstView packed = dense.packed.view();
            for (std::int64_t panel = 0; panel < 4; panel++)
                std::copy_n(static_cast<const T *>(packed.data) + panel * 32 * 128, 32 * 128, apart.data() + panel * 33 * 128);
            const attune::ConstView weight(apart.data(), {4, 32, 128}, {33 * 128, 128, 1});
            Array<T> out({rows, 200});
            const attune::Status refused =
                attune::linear(context, dense.x.view(), weight, dense.bias_view(), out.view(), {.variant = v.name});
            CHECK(message_defect(refused.message(), "variant", {std::string(v.name), "panels"}) == "");
            CHECK(out.untouched());
            REQUIRE(attune::linear(context, dense.x.view(), weight, dense.bias_view(), out.view()).ok());
            CHECK(context.last_variant().find("full_tiles") == std::string::npos);
            CHECK(same_bits(out.values(), dense.out.values()));
        }
        const attune::Status deep = LinearArrays<T>({.leading = {5}, .depth = 33, .packed = true}, false).run(context, v.name);
        CHECK(message_defect(deep.message(), "variant", {std::string(v.name), "32", "33"}) == "");
    });
}

TEST_CASE("batch_dot variants: columns that class full_tiles refuses, and rows apart that it is not for",
          "[batch_dot][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_variant("batch_dot", no_kind, [&](const attune::VariantInfo &v, auto zero) {
        if (!takes_full_tiles(v)) return;
        using T = decltype(zero);
        const int wide = columns_of_full_tiles(v);
        LinearArrays<T> wrong({.leading = {5}, .columns = wide + 1}, true);
        const attune::Status status = wrong.run(context, v.name);
        CHECK(message_defect(status.message(), "variant",
                             {std::string(v.name), std::to_string(wide), std::to_string(wide + 1)}) == "");
        CHECK(wrong.out.untouched());
        // Rows of weights far apart would push each other out of the caches.
        for (const std::int64_t rows : {1, 9})
            for (const std::int64_t depth : {256, 257, 2049}) {
                LinearArrays<T> a({.leading = {rows}, .columns = wide, .depth = depth, .order = Order::padded}, true);
                REQUIRE(a.run(context).ok());
                CHECK(context.last_variant() != v.name);
            }
    });
}
