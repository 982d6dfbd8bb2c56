// SPDX-License-Identifier: MIT
// Bad input of paged_attention: refused by name and number, and nothing is written.
#include "tests/support/paged_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstPages, attune::ConstView, attune::View;

namespace {
const std::vector<std::int32_t> page_zeros(64, 0);

// Sequences of 2, 0 and 3 queries that hold 40, 5 and 3 rows, in pages of 16.
struct PagedCall {
    PagedArrays<float> arrays{{.queries = {2, 0, 3}, .rows = {40, 5, 3}}};
    ConstView query = arrays.query.view();
    ConstPages keys{ConstView(arrays.key.view())}, values{ConstView(arrays.value.view())};
    ConstView ends = arrays.cu_seqlens_q(), table = arrays.block_table(), lens = arrays.lens();
    View out = arrays.out.view();
    Array<float> sums{{3, 2, 41}};
    attune::PagedOptions options{.lse = arrays.lse.view(), .weight_sums = sums.view()};
    attune::Context context;
    attune::Status run() { return attune::paged_attention(context, query, keys, values, ends, table, lens, out, options); }
    bool untouched() { return arrays.out.untouched() && arrays.lse.untouched() && sums.untouched(); }
};
template<typename F> void refuses_paged(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<PagedCall>(invalid, argument, parts, f);
}
}  // namespace

TEST_CASE("bad pages: tensors and pools", "[paged][bad_input]") {
    refuses_paged("query", {"rank", "3", "2"}, [](PagedCall &c) { c.query = {floats.data(), {8, 16}}; });
    refuses_paged("key_pages", {"rank", "4", "3"}, [](PagedCall &c) { c.keys.rows = {floats.data(), {16, 2, 16}}; });
    refuses_paged("key_pages", {"f64", "f32"}, [](PagedCall &c) { c.keys.rows = {doubles.data(), {1, 16, 2, 16}}; });
    refuses_paged("value_pages", {"f64", "f32"}, [](PagedCall &c) { c.values.rows = {doubles.data(), {1, 16, 2, 16}}; });
    refuses_paged("key_pages", {"multiple of 16", "24"}, [](PagedCall &c) { c.keys.rows = {floats.data(), {1, 24, 2, 16}}; });
    refuses_paged("key_pages", {"multiple of 16", "8"}, [](PagedCall &c) { c.keys.rows = {floats.data(), {1, 8, 2, 16}}; });
    refuses_paged("key_pages", {"scale", "f32"}, [](PagedCall &c) { c.keys.scale = {floats.data(), {1}}; });
    refuses_paged("value_pages", {"number of pages", "1"}, [](PagedCall &c) { c.values.rows.extent[0] = 1; });
    refuses_paged("value_pages", {"rows of a page", "32", "16"}, [](PagedCall &c) {
        c.values.rows = {floats.data(), {c.keys.rows.extent[0], 32, 2, 16}, {32, 1, 0, 1}}, c.values.rows.capacity = -1;
    });
    refuses_paged("key_pages", {"number of heads", "3", "4"}, [](PagedCall &c) {
        c.keys.rows.extent[2] = c.values.rows.extent[2] = 3, c.keys.rows.stride[2] = c.values.rows.stride[2] = 0;
    });
    refuses_paged("out", {"head size", "8", "16"}, [](PagedCall &c) { c.out.extent[2] = 8; });
    refuses_paged("out", {"number of rows", "4", "7"}, [](PagedCall &c) { c.out.extent[0] = 4; });
    refuses_paged("key_pages", {"head size", "8", "16"}, [](PagedCall &c) { c.keys.rows.extent[3] = 8; });
    refuses<PagedCall>(unsupported, "key_pages", {"stride of a page", "513", "32"},
                       [](PagedCall &c) { c.keys.rows.stride[0] = 513, c.keys.rows.capacity = -1; });
}

TEST_CASE("bad pages: tables and lengths", "[paged][bad_input]") {
    refuses_paged("cu_seqlens_q", {"5", "4"}, [](PagedCall &c) { c.query.extent[0] = 4, c.out.extent[0] = 4; });
    refuses_paged("lens", {"number of entries", "2", "3"}, [](PagedCall &c) { c.lens.extent[0] = 2; });
    static const std::int32_t short_lens[] = {1, 5, 3}, negative[] = {40, -1, 3}, long_lens[] = {400, 5, 3};
    refuses_paged("lens", {"0", "1", "2"}, [](PagedCall &c) { c.lens = {short_lens, {3}}; });
    refuses_paged("lens", {"1", "-1"}, [](PagedCall &c) { c.lens = {negative, {3}}; });
    refuses_paged("block_table", {"400", "25", "3"}, [](PagedCall &c) { c.lens = {long_lens, {3}}; });
    refuses_paged("block_table", {"number of rows", "2", "3"}, [](PagedCall &c) { c.table.extent[0] = 2; });
    refuses_paged("block_table", {"rank", "2", "1"}, [](PagedCall &c) { c.table = {page_zeros.data(), {3}}; });
    for (const std::int32_t wrong : {-1, 1000}) {
        static std::vector<std::int32_t> table;
        refuses_paged("block_table", {"page 1", "sequence 0", std::to_string(wrong)}, [&](PagedCall &c) {
            table = c.arrays.table, table[1] = wrong;
            c.table = {table.data(), {3, c.arrays.width}};
        });
    }
    refuses_paged("indptr", {"number of entries", "3", "4"}, [](PagedCall &c) {
        c.table = {page_zeros.data(), {64}}, c.options.indptr = {page_zeros.data(), {3}};
    });
    refuses_paged("block_table", {"sequence 0", "3 pages"}, [](PagedCall &c) {
        c.table = {page_zeros.data(), {64}}, c.options.indptr = {page_zeros.data(), {4}};
    });
}

TEST_CASE("bad pages: prefixes, trees and options", "[paged][bad_input]") {
    static const std::int32_t eight[] = {8}, sixteen[] = {16}, of[] = {0, -1, 1}, none[] = {-1, -1, -1};
    refuses_paged("prefix.lens", {"multiple of 16", "8"}, [](PagedCall &c) {
        c.options.prefix = {{page_zeros.data(), {1, 1}}, {eight, {1}}, {none, {3}}};
    });
    refuses_paged("prefix.of", {"(2)", "1", "0"}, [](PagedCall &c) {
        c.options.prefix = {{page_zeros.data(), {1, 1}}, {sixteen, {1}}, {of, {3}}};
    });
    static const std::int32_t outside[] = {99};
    refuses_paged("prefix.block_table", {"99"}, [](PagedCall &c) {
        c.options.prefix = {{outside, {1, 1}}, {sixteen, {1}}, {none, {3}}};
    });
    static const bool all_true[27] = {true, true, true, true, true, true, true, true, true, true, true, true, true, true,
                                      true, true, true, true, true, true, true, true, true, true, true, true, true},
                      all_false[27] = {};
    refuses_paged("tree_mask", {"(0, 0, 1)", "false"}, [](PagedCall &c) { c.options.tree_mask = {all_true, {3, 3, 3}}; });
    refuses_paged("tree_mask", {"(0, 0, 0)", "true"}, [](PagedCall &c) { c.options.tree_mask = {all_false, {3, 3, 3}}; });
    refuses_paged("tree_mask", {"rank", "3", "2"}, [](PagedCall &c) { c.options.tree_mask = {all_true, {3, 3}}; });
    refuses_paged("positions", {"tree_mask"}, [](PagedCall &c) { c.options.positions = {page_zeros.data(), {3, 3}}; });
    refuses_paged("distance_bias", {"number of heads", "3", "4"}, [](PagedCall &c) {
        c.options.distance_bias = {floats.data(), {3, 5}};
    });
    refuses_paged("window", {"left", "-2"}, [](PagedCall &c) { c.options.window.left = -2; });
    refuses_paged("sinks", {"number of heads", "3", "4"}, [](PagedCall &c) { c.options.sinks = {floats.data(), {3}}; });
    refuses_paged("lse", {"rank", "2", "1"}, [](PagedCall &c) { c.options.lse.rank = 1; });
    refuses_paged("out", {"overlaps"},
                  [](PagedCall &c) { c.out.data = const_cast<void *>(c.query.data), c.out.capacity = -1; });
}

TEST_CASE("bad pages: sums of weights", "[paged][bad_input]") {
    const auto refuses_sums = [](const std::vector<std::string> &parts, const auto &f) {
        refuses_paged("weight_sums", parts, [&](PagedCall &c) { f(c.options.weight_sums, c); });
    };
    PagedCall right;
    CHECK(right.run().message() == "");
    refuses_sums({"rank", "3", "2"}, [](View &v, PagedCall &) { v.rank = 2; });
    refuses_sums({"f32", "f64"}, [](View &v, PagedCall &) { v.dtype = attune::DType::f64; });
    refuses_sums({"batch", "2", "3"}, [](View &v, PagedCall &) { v.extent[0] = 2; });
    refuses_sums({"number of heads", "1", "4", "2"}, [](View &v, PagedCall &) { v.extent[1] = 1; });
    refuses_sums({"39", "sequence 0", "40"}, [](View &v, PagedCall &) { v.extent[2] = 39; });
    refuses_sums({"last", "stride"}, [](View &v, PagedCall &) { v.extent[2] = 40, v.stride[2] = 2, v.capacity = -1; });
    refuses_sums({"overlap each other"}, [](View &v, PagedCall &) { v.stride[0] = 41; });
    refuses_sums({"overlaps out"}, [](View &v, PagedCall &c) { v.data = c.out.data, v.capacity = -1; });
    refuses_sums({"overlaps lse"}, [](View &v, PagedCall &c) { v.data = c.options.lse.data, v.capacity = -1; });
    refuses_sums({"overlaps key_pages"},
                 [](View &v, PagedCall &c) { v.data = const_cast<void *>(c.keys.rows.data), v.capacity = -1; });
    // A prefix counts among the rows of a sequence.
    static const std::int32_t sixteen[] = {16}, of_first[] = {0, -1, -1};
    refuses_sums({"41", "sequence 0", "56"}, [](View &, PagedCall &c) {
        c.options.prefix = {{page_zeros.data(), {1, 1}}, {sixteen, {1}}, {of_first, {3}}};
    });
}

namespace {
constexpr float minus[] = {-1}, zero_scale[] = {0}, nan_scale[] = {__builtin_nanf("")};
const std::vector<std::int8_t> zeros_i8(32 << 10, 0);
const std::vector<std::uint8_t> zeros_u8(32 << 10, 0);
const std::vector<Float16> ones_f16(8 << 10, Float16(1));

// Keys and values of i8 with a scale for each row, in as many pages as PagedCall has.
void use_int8(PagedCall &c) {
    const std::int64_t pages = c.arrays.pages;
    c.keys = {ConstView(zeros_i8.data(), {pages, 16, 2, 16}), ConstView(floats.data(), {pages, 16, 2})};
    c.values = c.keys;
}
void use_int4(PagedCall &c) {
    const std::int64_t pages = c.arrays.pages;
    const ConstView scale(reinterpret_cast<const attune::float16 *>(ones_f16.data()), {pages, 16, 2, 1});
    c.keys = {ConstView(zeros_u8.data(), {pages, 16, 2, 8}), scale, scale};
    c.values = c.keys;
}
}  // namespace

TEST_CASE("bad pages: quantised rows and their scales", "[paged][bad_input]") {
    PagedCall right8, right4;
    use_int8(right8), use_int4(right4);
    CHECK(right8.run().message() == "");
    CHECK(right4.run().message() == "");
    const auto refuses_int8 = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refuses_paged(argument, parts, [&](PagedCall &c) { use_int8(c), f(c); });
    };
    refuses_int8("key_pages.scale", {"not given", "i8"}, [](PagedCall &c) { c.keys.scale = {}; });
    refuses_int8("key_pages.minimum", {"given", "i8"}, [](PagedCall &c) { c.keys.minimum = c.keys.scale; });
    refuses_int8("value_pages.scale", {"f64", "f32"}, [](PagedCall &c) { c.values.scale.dtype = attune::DType::f64; });
    refuses_int8("key_pages.scale", {"number of heads", "1", "2"}, [](PagedCall &c) { c.keys.scale.extent[2] = 1; });
    refuses_int8("key_pages.scale", {"rows of a page", "8", "16"}, [](PagedCall &c) { c.keys.scale.extent[1] = 8; });
    refuses_int8("key_pages.rows", {"multiple of 16", "8"}, [](PagedCall &c) {
        c.keys.rows.extent[1] = c.keys.scale.extent[1] = c.values.rows.extent[1] = c.values.scale.extent[1] = 8;
    });
    refuses_int8("value_pages.rows", {"last extent", "8", "16"}, [](PagedCall &c) { c.values.rows.extent[3] = 8; });
    for (const float *scale : {minus, zero_scale, nan_scale})
        refuses_int8("key_pages.scale", {"more than 0"}, [&](PagedCall &c) { c.keys.scale = {scale, {1}}; });
    refuses_int8("value_pages.scale", {"number of heads", "3", "2"}, [](PagedCall &c) {
        c.values.scale = {floats.data(), {3, 16}};
    });
    refuses<PagedCall>(unsupported, "key_pages.scale", {"laid out alike"},
                       [](PagedCall &c) { use_int8(c), c.keys.scale.stride[0] = 64, c.keys.scale.capacity = -1; });
    const auto refuses_int4 = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refuses_paged(argument, parts, [&](PagedCall &c) { use_int4(c), f(c); });
    };
    refuses_int4("key_pages.minimum", {"not given", "u8"}, [](PagedCall &c) { c.keys.minimum = {}; });
    refuses_int4("key_pages.scale", {"f32", "f16"}, [](PagedCall &c) { c.keys.scale.dtype = attune::DType::f32; });
    refuses_int4("value_pages.scale", {"3", "16"}, [](PagedCall &c) { c.values.scale.extent[3] = 3; });
    refuses_int4("key_pages.rows", {"last extent", "6", "8"}, [](PagedCall &c) { c.keys.rows.extent[3] = 6; });
    refuses_paged("key_pages.rows", {"f64"}, [](PagedCall &c) {
        use_int8(c);
        c.query = {doubles.data(), {7, 4, 16}, {0, 0, 1}};
        c.out.dtype = c.options.lse.dtype = attune::DType::f64;
    });
}
