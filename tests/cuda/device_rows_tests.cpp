// SPDX-License-Identifier: MIT
// transform_rows, kv_append and paged_append of tensors on a device: the rows have the bits that CPUs give them.
#include "tests/cuda/device_variants.h"
#include "tests/support/append_case.h"

using namespace attune_test;
using attune::ConstView, attune::Place, attune::View;

namespace {

void add_steps(RowsCase &c, unsigned seed) {
    c.norm = seed % 2 == 0, c.weight_is_f32 = seed % 3 == 0, c.weight_by_head = seed % 5 < 2;
    if (c.head_dim % 2 == 0) c.pairs = static_cast<Pairs>(seed % 3);
    if (c.pairs != Pairs::none && c.head_dim >= 16) c.dim = c.head_dim / 4 * 2, c.offset = seed % 4;
    c.hadamard = c.head_dim % 8 == 0 && seed % 4 < 2;
    c.place = Place::device, c.seed = seed;
}

// Head sizes of which the variant is the smallest that has them.
std::vector<std::int64_t> head_sizes(const attune::VariantRecord &v) {
    const std::int64_t most = attune::parameter_of(v, "channels", 0);
    if (most <= 256) return {1, 7, 16, 24, 64, 80, 128, most};
    return {most / 2, most};
}

template<typename T> void check_with_bits(attune::Context &context, const RowsCase &c) {
    check_case<T>(context, c);
    if (is_opencl()) return;  // whose compiler fuses products with sums
    RowsCase on_host = c;
    on_host.place = Place::host;
    RowsArrays<T> there(c), here(on_host);
    attune::Context host;
    REQUIRE(there.run(context).message() == "");
    REQUIRE(here.run(host).message() == "");
    INFO(describe(c));
    CHECK(same_bits((c.in_place ? there.x : there.out).values(), (c.in_place ? here.x : here.out).values()));
}

}  // namespace

TEST_CASE("device: steps on rows", "[device]") {
    attune::Context context;
    unsigned seed = 1;
    for_each_device_variant("transform_rows", {""}, [&](const attune::VariantRecord &v, auto zero) {
        for (const std::int64_t head_dim : head_sizes(v))
            for (int times = 0; times < (head_dim > 256 ? 2 : 5); times++) {
                RowsCase c{.heads = 1 + seed % 3, .rows = 1 + seed % 6, .head_dim = head_dim};
                constexpr Layout layouts[] = {Layout::dense, Layout::bshd, Layout::padded};
                c.layout = layouts[seed % 3], c.out_layout = layouts[(seed + 1) % 3], c.in_place = seed % 4 == 1;
                add_steps(c, seed++);
                check_with_bits<decltype(zero)>(context, c);
                CHECK(context.last_variant() == v.name);
            }
    });
}

TEST_CASE("device: rows into pages", "[device]") {
    attune::Context context, f32({.threads = 1});
    unsigned seed = 1;
    for_each_device_variant("transform_rows", {""}, [&](const attune::VariantRecord &v, auto zero) {
        for (const std::int64_t head_dim : head_sizes(v)) {
            if (head_dim > 1024) continue;
            PagedAppendCase c{.value_dim = head_dim, .heads_first = seed % 2 == 0};
            c.steps.head_dim = head_dim, c.steps.rows = 1 + seed % 23, c.steps.heads = 1 + seed % 3;
            c.rotate_values = head_dim % 8 == 0 && seed % 4 > 1;
            add_steps(c.steps, seed++);
            check_case<decltype(zero)>(context, f32, c);
            CHECK(context.last_variant() == v.name);
        }
    });
}

TEST_CASE("device: rows quantised to int8 and int4", "[device][no_opencl]") {
    attune::Context context, f32({.threads = 1});
    unsigned seed = 1;
    for_each_device_variant("quantise_rows", {""}, [&](const attune::VariantRecord &v, auto zero) {
        for (const std::int64_t head_dim : head_sizes(v))
            for (Stored stored : {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel, Stored::int4}) {
                PagedAppendCase c{.value_dim = head_dim, .keys = stored, .values = stored, .heads_first = seed % 2 == 0};
                c.steps.head_dim = head_dim, c.steps.rows = 1 + seed % 7, c.steps.heads = 1 + seed % 3;
                c.spread = std::array{1.7, 1e-7, 3e4}[seed % 3];
                c.group = std::array<std::int64_t, 3>{-1, 32, 64}[seed % 3];
                if (c.group > 0 && head_dim % c.group != 0) c.group = -1;
                if (c.group < 0 && head_dim > 256) c.group = 64;
                if (stored == Stored::int4 && head_dim % 2 != 0) c.keys = c.values = Stored::int8;
                add_steps(c.steps, seed++);
                check_case<decltype(zero)>(context, f32, c);
                CHECK(context.last_variant() == v.name);
            }
    });
}

TEST_CASE("device: rows behind those of a cache", "[device]") {
    if (!has_device()) return;
    attune::Context context, host;
    // Held rows of three entries, of which the last has room for one row more.
    const std::vector<std::int32_t> held = {0, 9, 11}, added = {3, 0, 1};
    constexpr std::int64_t capacity = 12, value_dim = 24;
    for (const bool some : {false, true})
        for (const bool in_order : {false, true}) {
            RowsCase c{.batch = 3, .heads = 2, .rows = some ? 3 : 1, .norm = true, .pairs = Pairs::halves, .hadamard = true};
            RowsArrays<float> rows(c);
            Array<float> value({3, 2, c.rows, value_dim}, Layout::bshd);
            std::mt19937 random(1);
            value.randomise(random, 1);
            const auto append = [&](attune::Context &by, Place place) {
                Array<float> keys({3, 2, capacity, c.head_dim}, Layout::bshd),
                    values({3, 2, capacity, value_dim}, Layout::padded);
                rows.the.place = place;
                const auto placed = [&](auto view) { return rows.placed(view); };
                attune::KvAppendOptions options{.key_steps = rows.steps(), .rotate_values = true};
                if (some) options.new_lens = placed(ConstView(added.data(), {3}));
                if (!in_order) options.positions = placed(ConstView(rows.positions.view()));
                const auto status =
                    attune::kv_append(by, placed(ConstView(rows.x.view())), placed(ConstView(value.view())),
                                      placed(ConstView(held.data(), {3})), placed(keys.view()), placed(values.view()), options);
                REQUIRE(status.message() == "");
                return std::pair(keys.values(), values.values());
            };
            const auto there = append(context, Place::device), here = append(host, Place::host);
            CHECK(same_bits(there.first, here.first));
            CHECK(same_bits(there.second, here.second));
            CHECK(context.last_variant() != "");
        }
}

TEST_CASE("device: rows without a place are not stored", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    // Slots outside of the pool; lengths below 0 and beyond the capacity.
    PagedAppendCase c{.steps = {.batch = 1, .rows = 6, .place = Place::device}, .pages = 2};
    PagedAppendArrays<float> a(c);
    a.slots = {-1, 5, 32, std::int64_t(1) << 32, -7, (std::int64_t(1) << 40) + 5};
    const auto others = a.key_pool.others({5});
    REQUIRE(a.run(context).message() == "");
    CHECK(a.key_pool.others({5}) == others);
    for (std::int64_t d = 0; d < c.steps.head_dim; d++) CHECK(a.key_pool.rows(0, 5, 0, d) == a.keys.x(0, 0, 1, d));

    const std::vector<std::int32_t> held = {-1, 3, 4, 2}, added = {2, 2, 2, 9};
    const auto zeros = [](std::initializer_list<std::int64_t> extents) { return Array<float>(extents, Layout::dense, 0); };
    Array<float> rows = zeros({4, 1, 2, 8}), keys = zeros({4, 1, 4, 8}), values = keys;
    std::mt19937 random(1);
    rows.randomise(random, 1);
    REQUIRE(attune::kv_append(context, on_device(rows.view()), on_device(rows.view()), on_device(ConstView(held.data(), {4})),
                              on_device(keys.view()), on_device(values.view()),
                              {.new_lens = on_device(ConstView(added.data(), {4}))})
                .message() == "");
    for (std::int64_t b = 0; b < 4; b++)
        for (std::int64_t i = 0; i < 4; i++) {
            const std::int64_t from = i - held[std::size_t(b)];
            const float expected = from >= 0 && from < 2 ? rows(b, 0, from, 3) : 0;
            CHECK((keys(b, 0, i, 3) == expected && values(b, 0, i, 3) == expected));
        }
}

TEST_CASE("device: more rows than a grid has blocks", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    constexpr std::int64_t rows = 65535 + 200;
    Array<float> x({1, 1, rows, 1}), out({1, 1, rows, 1}), keys({1, 1, rows + 3, 1}), values({1, 1, rows + 3, 1});
    keys(0, 0, 2, 0) = 0;
    for (std::int64_t t = 0; t < rows; t++) x(0, 0, t, 0) = float(t + 1);
    REQUIRE(attune::transform_rows(context, on_device(x.view()), {}, on_device(out.view()), {}).message() == "");
    CHECK(same_bits(out.values(), x.values()));
    const std::vector<std::int32_t> held = {3};
    REQUIRE(attune::kv_append(context, on_device(x.view()), on_device(x.view()), on_device(ConstView(held.data(), {1})),
                              on_device(keys.view()), on_device(values.view()))
                .message() == "");
    bool same = keys(0, 0, 2, 0) == 0;
    for (std::int64_t t = 0; t < rows; t++) same = same && keys(0, 0, t + 3, 0) == x(0, 0, t, 0);
    CHECK(same);
}

TEST_CASE("device: appends of nothing", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    PagedAppendCase c{.steps = {.batch = 1, .rows = 0, .place = Place::device}};
    PagedAppendArrays<float> none(c);
    CHECK(none.run(context).message() == "");
    CHECK(context.last_variant() == "");
    c.steps.rows = 2, c.pages = 0;
    PagedAppendArrays<float> no_pages({.steps = c.steps, .pages = 6});
    attune::Pages keys = no_pages.placed(no_pages.key_pool), values = no_pages.placed(no_pages.value_pool);
    keys.rows.extent[0] = values.rows.extent[0] = 0;
    CHECK(attune::paged_append(context, no_pages.keys.placed(no_pages.packed(no_pages.keys.x.view())),
                               no_pages.keys.placed(no_pages.packed(no_pages.values.x.view())),
                               on_device(ConstView(no_pages.slots.data(), {2})), keys, values)
              .message() == "");
    CHECK(no_pages.key_pool.rows.untouched());
}

TEST_CASE("device: what is refused of rows, before anything is written", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    RowsArrays<float> a({.norm = true, .pairs = Pairs::halves, .place = Place::device});
    const auto refused = [&](const auto &change) {
        attune::RowSteps steps = a.steps();
        ConstView positions = on_device(a.positions.view());
        View out = on_device(a.out.view());
        change(steps, positions, out);
        const auto status = attune::transform_rows(context, on_device(a.x.view()), positions, out, steps);
        CHECK(a.out.untouched());
        return status.message();
    };
    using S = attune::RowSteps;
    CHECK(refused([](S &, ConstView &, View &out) { out.place = Place::host; }) == "out: is on the host, x is on a device");
    CHECK(refused([](S &, ConstView &p, View &) { p.place = Place::host; }) == "positions: is on the host, x is on a device");
    CHECK(refused([](S &s, ConstView &, View &) { s.norm_weight.place = Place::host; }) ==
          "norm_weight: is on the host, x is on a device");
    CHECK(refused([](S &, ConstView &p, View &) { p.extent[1]--; }) == "positions: number of rows is 4, that of the rows is 5");
    CHECK(refused([](S &s, ConstView &, View &) { s.rope.cos = s.rope.sin = {}, s.rope.base = 10000; }) ==
          "rope.base: tensors on a device take tables of rope_tables(), on the device as well");
    RowsArrays<double> wide({.place = Place::device});
    CHECK(wide.run(context).message() == "x: there are no kernels for f64 on a device");
    RowsArrays<float> long_rows({.head_dim = 9000, .place = Place::device});
    CHECK(long_rows.run(context).message().find("for f32 and rows of 9000 channels is linked in") != std::string::npos);

    Array<float> rows({1, 1, 2, 8}), keys({1, 1, 4, 8}, Layout::dense, 7), values({1, 1, 4, 8}, Layout::dense, 7);
    const std::vector<std::int32_t> held = {4};
    const auto append = [&](const attune::KvAppendOptions &options, Place of_lens) {
        ConstView lens(held.data(), {1});
        lens.place = of_lens;
        const auto status = attune::kv_append(context, on_device(rows.view()), on_device(rows.view()), lens,
                                              on_device(keys.view()), on_device(values.view()), options);
        CHECK((keys.untouched() && values.untouched()));
        return status.message();
    };
    CHECK(append({}, Place::host) == "cache_lens: is on the host, key is on a device");
    CHECK(append({.when_full = attune::CacheWhenFull::slide}, Place::device) == "when_full: caches on a device do not slide");
    CHECK(append({.new_lens = ConstView(held.data(), {1})}, Place::device) == "new_lens: is on the host, key is on a device");

    PagedAppendArrays<float> paged({.steps = {.batch = 1, .place = Place::device}});
    const auto status = attune::paged_append(
        context, paged.keys.placed(paged.packed(paged.keys.x.view())), paged.keys.placed(paged.packed(paged.values.x.view())),
        ConstView(paged.slots.data(), {5}), paged.placed(paged.key_pool), paged.placed(paged.value_pool));
    CHECK(status.message() == "slots: is on the host, key is on a device");
}

TEST_CASE("device: rows on a machine without a driver", "[no_driver]") {
    if (attune::device_backend()->missing().empty()) {
        WARN("SKIPPED: this machine has a driver");
        return;
    }
    attune::Context context, allowed({.device = {.cpu_instead = true}}), f32;
    PagedAppendCase c{.steps = {.batch = 1, .norm = true, .place = Place::device}, .keys = Stored::int8};
    PagedAppendArrays<float> a(c);
    CHECK(a.run(context).message() == "key: is on a device, but " + attune::device_backend()->missing());
    check_case<float>(allowed, f32, c);
    check_case<float>(allowed, {.norm = true, .pairs = Pairs::halves, .place = Place::device});
    Array<float> rows({1, 1, 2, 8}), keys({1, 1, 4, 8}), values({1, 1, 4, 8});
    const std::vector<std::int32_t> held = {1};
    rows(0, 0, 1, 3) = 5;
    REQUIRE(attune::kv_append(allowed, on_device(rows.view()), on_device(rows.view()), on_device(ConstView(held.data(), {1})),
                              on_device(keys.view()), on_device(values.view()))
                .message() == "");
    CHECK(keys(0, 0, 2, 3) == 5);
}
