// SPDX-License-Identifier: MIT
// transform_rows, rope_tables, kv_append and paged_append with steps (docs/conventions.md rows 30, 31, 42 to 46).
#include "attune/attune.h"
#include "tests/support/append_case.h"
#include "tests/support/central_differences.h"
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::ConstView, attune::View;

TEST_CASE("rope_tables: the angles of positions, rounded once", "[rows]") {
    attune::Context context;
    Array<float> cos({300, 20}, {23, 1}), sin({300, 20}, {20, 1});
    REQUIRE(attune::rope_tables(context, 500000, 4, cos.view(), sin.view()).ok());
    bool same = true;
    for (std::int64_t p = 0; p < 300; p++)
        for (std::int64_t t = 0; t < 20; t++) {
            const double angle = double(p) / 4 * std::pow(500000., -2. * double(t) / 40);
            same = same && std::abs(cos.data()[p * 23 + t] - std::cos(angle)) <= 0x1p-24;
            same = same && std::abs(sin.data()[p * 20 + t] - std::sin(angle)) <= 0x1p-24;
        }
    CHECK(same);
    CHECK(cos.gaps_untouched());
}

TEMPLATE_TEST_CASE("rows: steps by hand", "[rows]", float, double) {
    using T = TestType;
    attune::Context context;
    // One row of four channels at position 1; the angles are a quarter and a half turn.
    const std::vector<float> cos = {1, 1, 0, -1}, sin = {0, 0, 1, 0};
    const std::vector<T> x = {1, 2, 3, 4};
    const std::vector<std::int32_t> positions = {1};
    const auto run = [&](const attune::RowSteps &steps) {
        std::vector<T> out(4);
        REQUIRE(attune::transform_rows(context, {x, {1, 1, 4}}, positions, {out, {1, 1, 4}}, steps).ok());
        return out;
    };
    attune::Rope rope{.cos = {cos, {2, 2}}, .sin = {sin, {2, 2}}};
    CHECK(run({}) == x);
    CHECK(run({.rope = rope}) == std::vector<T>{-3, -2, 1, -4});
    rope.pairs = attune::RopePairs::interleaved;
    CHECK(run({.rope = rope}) == std::vector<T>{-2, 1, -3, -4});
    rope.cos = {cos.data() + 2, {2, 1}, {0, 1}}, rope.sin = {sin.data() + 2, {2, 1}, {0, 1}}, rope.dim = 2, rope.offset = 1;
    CHECK(run({.rope = rope}) == std::vector<T>{1, -3, 2, 4});
    const std::vector<T> weight = {1, 1, 2, 1};
    const std::vector<T> normed = run({.norm_weight = weight, .norm_eps = 8.5});  // 1 / sqrt(7.5 + 8.5)
    CHECK(normed == std::vector<T>{T(0.25), T(0.5), T(1.5), T(1)});
}

TEST_CASE("rows: the Hadamard rotation is its own inverse, and keeps products", "[rows]") {
    attune::Context context;
    RowsArrays<double> a({.head_dim = 96, .hadamard = true});
    REQUIRE(a.run(context).ok());
    Array<double> back({2, 3, 5, 96}, Layout::dense);
    REQUIRE(attune::transform_rows(context, a.out.view(), {}, back.view(), {.hadamard = true}).ok());
    CHECK(judge(a.x.values(), a.x.values(), back.values()).right);
    double before = 0, after = 0;
    for (std::int64_t d = 0; d < 96; d++)
        before += a.x(0, 0, 0, d) * a.x(1, 2, 4, d), after += a.out(0, 0, 0, d) * a.out(1, 2, 4, d);
    CHECK(std::abs(before - after) < 1e-12);
}

TEST_CASE("rows: gradients are the differences of the result", "[rows][backward]") {
    attune::Context context({.threads = 1});
    unsigned seed = 1;
    for (bool by_head : {false, true})
        for (Pairs pairs : {Pairs::none, Pairs::halves, Pairs::interleaved}) {
            const RowsCase c{.rows = 3,
                             .head_dim = 24,
                             .norm = true,
                             .weight_by_head = by_head,
                             .pairs = pairs,
                             .dim = pairs == Pairs::none ? 0 : 12,
                             .offset = pairs == Pairs::none ? 0 : 7,
                             .hadamard = pairs != Pairs::interleaved,
                             .seed = seed++};
            INFO(describe(c));
            RowsArrays<double> a(c);
            REQUIRE(a.run_backward(context).ok());
            const auto grad = a.grad_out.values();
            const auto loss = [&] {
                REQUIRE(a.run(context).ok());
                long double sum = 0;
                std::size_t n = 0;
                a.out.each([&](double &y) { sum += static_cast<long double>(y) * grad[n++]; });
                return double(sum);
            };
            std::mt19937 random(seed);
            CHECK(difference_defect(differenced("x", a.x, a.grad_x.values(), loss), 40, random) == "");
            CHECK(difference_defect(differenced("weight", a.weight, a.grad_weight.values(), loss), 40, random) == "");
        }
}

TEST_CASE("rows: no rows", "[rows]") {
    attune::Context context;
    RowsArrays<float> a({.rows = 0, .norm = true, .pairs = Pairs::halves});
    CHECK(a.run(context).ok());
    CHECK(a.run_backward(context).ok());
    CHECK(a.grad_weight.values() == std::vector<float>(32, 0.f));
    PagedAppendCase c;
    c.steps.rows = 0, c.keys = Stored::int8;
    PagedAppendArrays<float> none(c);
    CHECK(none.run(context).ok());
}

// A stored number is at most half a step off; with a scale in f16 two roundings of the scale more.
TEST_CASE("paged_append: what quantisation loses", "[append]") {
    attune::Context context;
    for (Stored stored : {Stored::int8, Stored::int8_f16, Stored::int4}) {
        PagedAppendCase c;
        c.steps.head_dim = c.value_dim = 128, c.keys = c.values = stored;
        PagedAppendArrays<float> a(c);
        REQUIRE(a.run(context).ok());
        PoolArrays<float> &p = a.key_pool;
        double worst = 0;
        for (std::int64_t t = 0; t < c.steps.rows; t++)
            for (std::int64_t h = 0; h < c.steps.heads && a.slots[std::size_t(t)] >= 0; h++)
                for (std::int64_t d = 0; d < 128; d++) {
                    const std::int64_t page = a.slots[std::size_t(t)] / 16, i = a.slots[std::size_t(t)] % 16;
                    const double x = a.keys.x(0, h, t, d);
                    double stored_as, step;
                    if (stored == Stored::int4) {
                        step = p.scale_f16(page, i, h, d / 32);
                        stored_as = p.minimum(page, i, h, d / 32) + step * (p.int4(page, i, h, d / 2) >> 4 * (d % 2) & 15);
                    } else {
                        step = stored == Stored::int8 ? p.scale(page, i, h) : float(p.scale_f16(page, i, h));
                        stored_as = step * p.int8(page, i, h, d);
                    }
                    worst = std::max(worst, std::abs(x - stored_as) / step);
                }
        INFO(name_of(stored));
        // int4: the minimum is half a unit of f16 off, at most a 50th of a step here, and 15 steps are.
        CHECK(worst <= (stored == Stored::int8       ? 0.5001
                        : stored == Stored::int8_f16 ? 0.5 + 127 * 0x1p-11
                                                     : 0.5 + 15 * 0x1p-11 + 0.02));
        CHECK(worst > 0.4);
    }
}

TEST_CASE("paged_append: rows of zeros, and numbers at the ends of f16", "[append]") {
    attune::Context context;
    const std::vector<std::int64_t> slots = {3};
    const auto append = [&](float x, auto scale) {
        std::vector<float> row(32, x);
        std::vector<std::int8_t> keys(16 * 32), values(16 * 32);
        std::vector<decltype(scale)> of_keys(16), of_values(16);
        row[1] = 0;
        const auto status = attune::paged_append(context, {row, {1, 1, 32}}, {row, {1, 1, 32}}, slots,
                                                 {View(keys, {1, 16, 1, 32}), View(of_keys, {1, 16, 1})},
                                                 {View(values, {1, 16, 1, 32}), View(of_values, {1, 16, 1})});
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(keys == values);
        return std::pair(int(keys[3 * 32]), float(of_keys[3]));
    };
    CHECK(append(0, 0.f) == std::pair(0, 0.f));
    CHECK(append(0, Float16()) == std::pair(0, 0.f));
    CHECK(append(-254, 0.f) == std::pair(-127, 2.f));
    CHECK(append(1e-6f, Float16()) == std::pair(0, 0.f));       // the scale rounds to 0 in f16
    CHECK(append(3e7f, Float16()) == std::pair(127, 65504.f));  // and to the largest number of f16
    CHECK(append(1e-39f, 0.f).first == 127);
}

TEST_CASE("paged_append: the first slot alone", "[append]") {
    attune::Context context;
    const std::vector<float> row = {1, 2};
    const std::vector<std::int64_t> slots = {-1, 0};
    std::vector<float> keys(32, 7), values(32, 7), expected(32, 7);
    expected[0] = 1, expected[1] = 2;
    const ConstView twice(row.data(), {2, 1, 2}, {0, 2, 1});
    REQUIRE(attune::paged_append(context, twice, twice, slots, View(keys, {1, 16, 1, 2}), View(values, {1, 16, 1, 2})).ok());
    CHECK(keys == expected);
    CHECK(values == expected);
}

TEST_CASE("paged_append: rows that are skipped may hold NaN", "[append]") {
    attune::Context context;
    PagedAppendCase c;
    c.keys = c.values = Stored::int8;
    PagedAppendArrays<float> a(c);  // row 3 is skipped
    a.keys.x(0, 1, 3, 5) = std::numeric_limits<float>::quiet_NaN();
    a.values.x(0, 0, 3, 0) = std::numeric_limits<float>::infinity();
    CHECK(a.run(context).ok());
}

TEST_CASE("paged_append: pools that kernels index in parts", "[append]") {
    // Pages far apart, most of whose memory is never touched: 4 GiB of i8 between the first and the last.
    attune::Context context;
    const std::int64_t pages = 5, stride = std::int64_t(1) << 30, bytes = (pages - 1) * stride + 16 * 32;
    void *const memory =
        mmap(nullptr, std::size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    auto *const pool = static_cast<std::int8_t *>(memory);
    std::vector<float> x(5 * 32), scale(std::size_t(pages * 16)), values(5 * 32);
    for (std::size_t n = 0; n < x.size(); n++) x[n] = float(n % 32 == 0 ? 127 : n / 32);
    std::vector<float> value_pool(std::size_t(pages * 16 * 32));
    const std::vector<std::int64_t> slots = {4 * 16 + 15, 0, 2 * 16 + 3, 3 * 16, 1 * 16 + 1};
    const auto status = attune::paged_append(context, {x, {5, 1, 32}}, {values, {5, 1, 32}}, slots,
                                             {View(pool, {pages, 16, 1, 32}, {stride, 32, 32, 1}), View(scale, {pages, 16, 1})},
                                             View(value_pool, {pages, 16, 1, 32}));
    INFO(status.message());
    CHECK(status.ok());
    for (std::int64_t t = 0; t < 5; t++) {
        const std::int64_t slot = slots[std::size_t(t)];
        CHECK(int(pool[slot / 16 * stride + slot % 16 * 32 + 7]) == t);
        CHECK(scale[std::size_t(slot)] == 1);
    }
    munmap(memory, std::size_t(bytes));
}

TEMPLATE_TEST_CASE("kv_append: steps are those of transform_rows", "[kv_cache][rows]", float, double, BFloat16, Float16) {
    using T = TestType;
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (bool slides : {false, true})
        for (bool given : {true, false}) {
            if (slides && !given) continue;
            RowsCase c{
                .rows = 4, .head_dim = 24, .norm = true, .pairs = Pairs::halves, .hadamard = true, .layout = Layout::bshd};
            c.seed = seed++;
            RowsArrays<T> keys(c), values({.rows = 4, .head_dim = 40, .hadamard = true, .seed = seed++});
            const std::vector<std::int32_t> held = {slides ? 8 : 2, 5};
            if (!given)
                for (int b = 0; b < 2; b++)
                    for (int i = 0; i < 4; i++) keys.positions.data()[4 * b + i] = held[std::size_t(b)] + i;
            REQUIRE(keys.run(context).ok());
            REQUIRE(values.run(context).ok());
            Array<T> key_cache({2, 3, 9, 24}, Layout::bshd, poison<T>(2)),
                value_cache({2, 3, 9, 40}, Layout::padded, poison<T>(2));
            std::mt19937 random(seed);
            key_cache.randomise(random, 2), value_cache.randomise(random, 2);
            Array<T> key_before = key_cache, value_before = value_cache;
            attune::KvAppendOptions options{.key_steps = keys.steps(), .rotate_values = true};
            if (given) options.positions = keys.positions.view();
            if (slides) options.when_full = attune::CacheWhenFull::slide;
            const auto status =
                attune::kv_append(context, keys.x.view(), values.x.view(), held, key_cache.view(), value_cache.view(), options);
            INFO(status.message());
            REQUIRE(status.ok());
            bool same = true;
            for (std::int64_t b = 0; b < 2; b++) {
                const std::int64_t dropped = std::max(held[std::size_t(b)] + 4 - 9, 0), end = held[std::size_t(b)] - dropped;
                for (std::int64_t h = 0; h < 3; h++)
                    for (std::int64_t i = 0; i < 9; i++) {
                        const bool is_new = i >= end && i < end + 4;
                        for (std::int64_t d = 0; d < 24; d++)
                            same = same && same_bits(key_cache(b, h, i, d), is_new    ? keys.out(b, h, i - end, d)
                                                                            : i < end ? key_before(b, h, i + dropped, d)
                                                                                      : key_before(b, h, i, d));
                        for (std::int64_t d = 0; d < 40; d++)
                            same = same && same_bits(value_cache(b, h, i, d), is_new    ? values.out(b, h, i - end, d)
                                                                              : i < end ? value_before(b, h, i + dropped, d)
                                                                                        : value_before(b, h, i, d));
                    }
            }
            CHECK(same);
            CHECK(key_cache.gaps_untouched());
            CHECK(value_cache.gaps_untouched());
        }
}

TEST_CASE("kv_append: steps of rows that are not stored run no kernel", "[kv_cache][rows]") {
    attune::Context context;
    RowsArrays<float> keys({.rows = 4, .head_dim = 24, .norm = true, .pairs = Pairs::halves}),
        values({.rows = 4, .head_dim = 40, .hadamard = true});
    for (std::int64_t capacity : {9, 0}) {
        INFO("capacity " << capacity);
        Array<float> key_cache({2, 3, capacity, 24}, Layout::dense, poison<float>(2)),
            value_cache({2, 3, capacity, 40}, Layout::dense, poison<float>(2));
        const std::vector<std::int32_t> held = {0, 0}, none = {0, 0};
        attune::KvAppendOptions options{.key_steps = keys.steps(), .rotate_values = true, .positions = keys.positions.view()};
        if (capacity > 0)
            options.new_lens = ConstView(none.data(), {2});
        else
            options.when_full = attune::CacheWhenFull::slide;
        const std::vector<float> before = key_cache.values();
        const auto status =
            attune::kv_append(context, keys.x.view(), values.x.view(), held, key_cache.view(), value_cache.view(), options);
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(context.last_variant().empty());
        CHECK(same_bits(key_cache.values(), before));
    }
}
