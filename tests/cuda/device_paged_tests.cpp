// SPDX-License-Identifier: MIT
// paged_attention of tensors on a device: every variant with a kernel over pages, each sequence against the reference over its
// rows in order. Rows that are not held are NaN, and entries of the table behind a sequence's pages are -1.
#include "tests/cuda/device_variants.h"
#include "tests/support/paged_case.h"
#include "tests/support/quantised_case.h"
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

attune::PagedOptions there(attune::PagedOptions o) {
    for (ConstView *v : {&o.alibi_slopes, &o.sinks}) *v = on_device(*v);
    o.lse = on_device(o.lse);
    return o;
}

template<typename T>
attune::Status run_there(attune::Context &context, PagedArrays<T> &a, const attune::PagedOptions &options = {}) {
    return attune::paged_attention(context, on_device(a.query.view()), attune::ConstPages(on_device(ConstView(a.key.view()))),
                                   attune::ConstPages(on_device(ConstView(a.value.view()))), a.cu_seqlens_q(),
                                   on_device(a.block_table()), on_device(a.lens()), on_device(a.out.view()),
                                   there(a.with_tables(options)));
}

template<typename T>
attune::Status run_there(attune::Context &context, QuantisedArrays<T> &a, const attune::PagedOptions &options) {
    const auto placed = [](attune::ConstPages pages) {
        for (ConstView *v : {&pages.rows, &pages.scale, &pages.minimum}) *v = on_device(*v);
        return pages;
    };
    PagedArrays<T> &all = a.all;
    return attune::paged_attention(context, on_device(all.query.view()), placed(a.key.view()), placed(a.value.view()),
                                   all.cu_seqlens_q(), on_device(all.block_table()), on_device(all.lens()),
                                   on_device(all.out.view()), there(all.with_tables(options)));
}

// Fault of out and lse of sequence s, empty if there is none.
template<typename T> std::string defect(PagedArrays<T> &a, std::int64_t s, const attune::PagedOptions &given) {
    const std::int64_t first = a.ends[std::size_t(s)], count = a.the.queries[std::size_t(s)];
    if (count == 0) return "";
    Array<T> key = a.rows_in_order(a.key, s), value = a.rows_in_order(a.value, s), bias;
    const InOrder options = in_order(given, a, s, key.view().extent[2], bias);
    const View q = sequence_of(a.query.view(), first, count);
    return packed_defect<T>({q, key.view(), value.view()}, a, first, options.options);
}

template<typename T> void check(attune::Context &context, const PagedCase &c, const attune::PagedOptions &options) {
    PagedArrays<T> a(c);
    INFO("seed " << c.seed << " page " << c.page);
    REQUIRE(run_there(context, a, options).message() == "");
    INFO("ran " << context.last_variant());
    for (std::int64_t s = 0; s < a.batch(); s++) {
        INFO("sequence " << s);
        CHECK(defect(a, s, options) == "");
    }
    CHECK((a.out.gaps_untouched() && a.lse.gaps_untouched()));
}

// Calls f(variant, a zero of its type) for each variant with a kernel over pages.
template<typename F> void for_each_paged_variant(const F &f) {
    for_each_device_variant("sdpa", {"plain", "scored"}, [&](const attune::VariantRecord &v, auto zero) {
        if (v.pages_kernel) f(v, zero);
    });
}

void set_head_sizes(const attune::VariantRecord &v, PagedCase &c) {
    c.head_dim = c.value_dim = v.head_dim;
    if (v.head_dim == 0) c.head_dim = attune::parameter_of(v, "channels", 0) / 2 + 1, c.value_dim = 21;
}

// Slopes and sinks on the heap, since no GPU reaches the stack.
struct Tables {
    std::vector<float> slopes = {0.1f, 0.3f, 0, 0.02f}, sinks = {0.5f, -1, 2, 0};
    std::vector<attune::PagedOptions> of(std::string_view kind) const {
        std::vector<attune::PagedOptions> all(3);
        all[1].causal = false, all[1].window = {40, 3};
        all[2].window = {70, -1};
        if (kind == "plain") return all;
        all[0].softcap = 5, all[0].sinks = ConstView(sinks.data(), {4});
        all[1].alibi_slopes = ConstView(slopes.data(), {4});
        all[2].scale = -0.3;
        return all;
    }
};

}  // namespace

TEST_CASE("device: pages, prompts and steps in one call", "[device]") {
    attune::Context context;
    const Tables tables;
    unsigned seed = 1;
    for_each_paged_variant([&](const attune::VariantRecord &v, auto zero) {
        for (attune::PagedOptions options : tables.of(v.kind)) {
            PagedCase c{.queries = {1, 1, 1, 0, 7, 21, 1}, .rows = {1, 33, 300, 4, 40, 21, 129}};
            constexpr std::int64_t pages[] = {16, 128, 1, 64};
            c.page = pages[seed % 4], c.heads_first = c.page > 1 && seed % 2;
            c.seed = seed++;
            set_head_sizes(v, c);
            options.variant = v.name;
            check<decltype(zero)>(context, c, options);
        }
    });
}

TEST_CASE("device: pages quantised to int8 and int4", "[device][no_opencl]") {
    attune::Context context;
    const Tables tables;
    unsigned seed = 1;
    for (const std::string_view op : {"sdpa_int8", "sdpa_int4"})
        for_each_device_variant(op, {"scored"}, [&](const attune::VariantRecord &v, auto zero) {
            using T = decltype(zero);
            const auto channels = attune::parameter_of(v, "channels", 0);
            const bool int4 = op == "sdpa_int4";
            for (attune::PagedOptions options : tables.of(v.kind))
                for (const Stored stored : {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel}) {
                    QuantisedCase c{.pages = {.queries = {1, 1, 0, 7, 21, 1}, .rows = {1, 300, 4, 40, 21, 129}}};
                    constexpr std::int64_t pages[] = {16, 128, 1, 64};
                    c.pages.page = pages[seed % 4], c.pages.heads_first = c.pages.page > 1 && seed % 2;
                    c.pages.seed = seed++;
                    c.pages.head_dim = channels, c.pages.value_dim = seed % 3 ? channels : int4 ? 22 : 21;
                    // Keys and values may have scales of two forms.
                    c.keys = c.values = int4 ? Stored::int4 : stored;
                    if (!int4 && seed % 5 == 0) c.values = Stored::int8;
                    c.group = seed % 3 == 0 ? -1 : seed % 3 == 1 ? 32 : 64;
                    INFO(describe(c));
                    QuantisedArrays<T> a(c);
                    options.variant = v.name;
                    REQUIRE(run_there(context, a, options).message() == "");
                    CHECK(context.last_variant() == v.name);
                    CHECK(a.defect(options) == "");
                    if (int4 && stored == Stored::int8_f16) break;
                }
        });
}

TEST_CASE("device: quantised pages of sequences that hold no row", "[device][no_opencl]") {
    if (!has_device()) return;
    attune::Context context;
    for (const Stored stored : {Stored::int8, Stored::int8_channel, Stored::int4}) {
        QuantisedArrays<float> a(
            {.pages = {.queries = {1, 1}, .rows = {1, 20}}, .keys = stored, .values = stored, .group = -1});
        a.all.the.rows = {0, 0};
        REQUIRE(run_there(context, a, {}).message() == "");
        for (std::int64_t i = 0; i < 2; i++)
            for (std::int64_t h = 0; h < a.all.the.query_heads; h++) CHECK(a.all.out(i, h, 0) == 0);
    }
}

TEST_CASE("device: a sequence over pages has the bits of the call for it alone", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    PagedCase c{.queries = {1, 1, 5, 1}, .rows = {300, 17, 64, 290}, .head_dim = 17, .value_dim = 21};
    PagedArrays<float> all(c);
    REQUIRE(run_there(context, all).message() == "");
    for (std::int64_t s = 0; s < all.batch(); s++) {
        PagedArrays<float> alone(c);
        const std::int64_t first = all.ends[std::size_t(s)], count = c.queries[std::size_t(s)];
        const std::vector<std::int32_t> ends = {0, std::int32_t(count)};
        REQUIRE(attune::paged_attention(context, on_device(attune::part_of(alone.query.view(), 0, first, count)),
                                        attune::ConstPages(on_device(ConstView(alone.key.view()))),
                                        attune::ConstPages(on_device(ConstView(alone.value.view()))),
                                        ConstView(ends.data(), {2}), on_device(attune::part_of(alone.block_table(), 0, s, 1)),
                                        on_device(attune::part_of(alone.lens(), 0, s, 1)),
                                        on_device(attune::part_of(alone.out.view(), 0, first, count)))
                    .message() == "");
        for (std::int64_t i = first; i < first + count; i++)
            for (std::int64_t h = 0; h < c.query_heads; h++)
                for (std::int64_t d = 0; d < c.value_dim; d++) CHECK(alone.out(i, h, d) == all.out(i, h, d));
    }
}

TEST_CASE("device: pages without sequences, queries, rows or entries of the table", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    for (const PagedCase &c : {PagedCase{.queries = {}, .rows = {}}, {.queries = {0, 0}, .rows = {3, 0}}}) {
        PagedArrays<float> a(c);
        CHECK(run_there(context, a).message() == "");
        CHECK(a.out.untouched());
    }
    // No rows, or no pages that could hold them: queries see no key.
    for (const bool no_pages : {false, true}) {
        PagedArrays<float> a(PagedCase{.queries = {1, 1}, .rows = {1, 20}});
        if (no_pages)
            a.key = a.value = Array<float>({0, 16, a.the.key_heads, a.the.head_dim});
        else
            a.the.rows = {0, 0};
        REQUIRE(run_there(context, a).message() == "");
        for (std::int64_t i = 0; i < 2; i++)
            for (std::int64_t h = 0; h < a.the.query_heads; h++) {
                CHECK(a.out(i, h, 0) == 0);
                CHECK(a.lse.data()[h * a.lse.view().stride[0] + i] == -std::numeric_limits<float>::infinity());
            }
    }
}

TEST_CASE("device: what is refused of pages, before anything is written", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    PagedArrays<float> a(PagedCase{.queries = {1, 3}, .rows = {20, 40}});
    const auto refused = [&](const auto &change) {
        attune::PagedOptions o = there(a.with_tables({}));
        ConstView ends = a.cu_seqlens_q(), table = on_device(a.block_table()), lens = on_device(a.lens());
        attune::ConstPages key(on_device(ConstView(a.key.view())));
        change(o, key, ends, table, lens);
        const std::string message = attune::paged_attention(context, on_device(a.query.view()), key,
                                                            attune::ConstPages(on_device(ConstView(a.value.view()))), ends,
                                                            table, lens, on_device(a.out.view()), o)
                                        .message();
        CHECK((a.out.untouched() && a.lse.untouched()));
        return message;
    };
    using O = attune::PagedOptions;
    using P = attune::ConstPages;
    using V = ConstView;
    const auto option = [&](const auto &set) { return refused([&](O &o, P &, V &, V &, V &) { set(o); }); };
    CHECK(refused([](O &, P &, V &ends, V &, V &) { ends = on_device(ends); }) ==
          "cu_seqlens_q: is on a device; pages there take it on the host");
    CHECK(refused([](O &, P &, V &, V &table, V &) { table.place = attune::Place::host; }) ==
          "block_table: is on the host, query is on a device");
    CHECK(refused([](O &, P &, V &, V &, V &lens) { lens.place = attune::Place::host; }) ==
          "lens: is on the host, query is on a device");
    CHECK(refused([](O &, P &, V &, V &, V &lens) { lens.extent[0] = 1; }) ==
          "lens: number of entries is 1, that of cu_seqlens_q is 2");
    CHECK(refused([](O &, P &, V &, V &table, V &) { table.extent[0] = 1; }) ==
          "block_table: number of rows is 1, that of lens is 2");
    CHECK(refused([](O &, P &key, V &, V &, V &) { key.rows.place = attune::Place::host; }) ==
          "key_pages: is on the host, query is on a device");
    CHECK(option([](O &o) { o.invariant = true; }) == "invariant: is not taken on a device");
    CHECK(option([](O &o) { o.alibi = true; }) == "alibi: tensors on a device take alibi_slopes, on the device as well");
    CHECK(option([&](O &o) { o.indptr = a.lens(); }) == "indptr: is not taken for pages on a device");
    CHECK(option([&](O &o) { o.tree_mask = a.lens(); }) == "tree_mask: is not taken for pages on a device");
    CHECK(option([&](O &o) { o.weight_sums = a.lse.view(); }) == "weight_sums: is not taken for pages on a device");
    // Rows of int8 for keys alone.
    Array<std::int8_t> bytes({a.pages, 16, a.the.key_heads, a.the.head_dim});
    Array<float> scale({1});
    CHECK(refused([&](O &, P &key, V &, V &, V &) { key = P(on_device(V(bytes.view())), on_device(V(scale.view()))); }) ==
          "value_pages: has pages of f32, key_pages of i8; on a device both are quantised alike");
    PagedArrays<float> odd(PagedCase{.queries = {1}, .rows = {50}, .page = 48});
    CHECK(run_there(context, odd).message() == "key_pages: has pages of 48 rows; on a device they are a power of two");
    PagedArrays<double> wide(PagedCase{.queries = {1}, .rows = {20}});
    CHECK(run_there(context, wide).message() == "query: there are no kernels for f64 on a device");
}

TEST_CASE("device: pages on a machine without a driver", "[no_driver]") {
    if (attune::device_backend()->missing().empty()) {
        WARN("SKIPPED: this machine has a driver");
        return;
    }
    attune::Context context, allowed({.device = {.cpu_instead = true}});
    PagedArrays<float> a(PagedCase{.queries = {1, 3}, .rows = {20, 40}});
    CHECK(run_there(context, a).message() == "query: is on a device, but " + attune::device_backend()->missing());
    CHECK(a.out.untouched());
    REQUIRE(run_there(allowed, a).message() == "");
    for (std::int64_t s = 0; s < a.batch(); s++) CHECK(defect(a, s, {}) == "");
}
