// SPDX-License-Identifier: MIT
// Bad input of transform_rows and its gradient, rope_tables, paged_append and the steps of kv_append: refused by name and
// number, and nothing is written.
#include "attune/attune.h"
#include "tests/support/append_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
const std::vector<float> angles(4000, 0.5f);
const std::vector<std::int32_t> numbers(64, 1);

// Two entries of three heads, five rows of 32 channels, with every step.
struct RowsCall {
    RowsArrays<float> arrays{{.norm = true, .pairs = Pairs::halves, .hadamard = true}};
    ConstView x = arrays.x.view(), positions = arrays.positions.view(), grad_out = arrays.grad_out.view();
    View out = arrays.out.view(), grad_x = arrays.grad_x.view(), grad_weight = arrays.grad_weight.view();
    attune::RowSteps steps = arrays.steps();
    bool backward = false;
    attune::Context context;
    attune::Status run() {
        if (backward) return attune::transform_rows_backward(context, x, positions, grad_out, grad_x, grad_weight, steps);
        return attune::transform_rows(context, x, positions, out, steps);
    }
    bool untouched() { return arrays.out.untouched() && arrays.grad_x.untouched() && arrays.grad_weight.untouched(); }
};
// Seven rows of two heads into six pages of 16 rows: keys of 64 channels as int4, values of 32 as int8.
struct PagesCall {
    static PagedAppendCase the() {
        PagedAppendCase c;
        c.steps = {.batch = 1, .heads = 2, .rows = 7, .head_dim = 64, .norm = true, .pairs = Pairs::halves, .hadamard = true};
        c.keys = Stored::int4, c.values = Stored::int8;
        return c;
    }
    PagedAppendArrays<float> arrays{the()};
    std::vector<std::byte> keys_before = arrays.key_pool.others({}), values_before = arrays.value_pool.others({});
    ConstView key = PagedAppendArrays<float>::packed(arrays.keys.x.view()),
              value = PagedAppendArrays<float>::packed(arrays.values.x.view());
    ConstView slots{arrays.slots.data(), {7}};
    attune::Pages key_pages = arrays.key_pool.view(), value_pages = arrays.value_pool.view();
    attune::AppendOptions options{.key_steps = arrays.keys.steps(), .positions = {arrays.keys.positions.data(), {7}}};
    attune::Context context;
    attune::Status run() { return attune::paged_append(context, key, value, slots, key_pages, value_pages, options); }
    bool untouched() { return arrays.key_pool.others({}) == keys_before && arrays.value_pool.others({}) == values_before; }
};
struct CacheCall {
    std::vector<std::int32_t> held = {3, 5};
    RowsArrays<float> keys{{.rows = 3, .pairs = Pairs::halves}};
    Array<float> values{{2, 3, 3, 12}, Layout::dense};
    Array<float> key_memory{{2, 3, 9, 32}, Layout::dense}, value_memory{{2, 3, 9, 12}, Layout::dense};
    attune::KvAppendOptions options{.key_steps = keys.steps()};
    attune::Context context;
    attune::Status run() {
        return attune::kv_append(context, keys.x.view(), values.view(), held, key_memory.view(), value_memory.view(), options);
    }
    bool untouched() { return key_memory.untouched() && value_memory.untouched(); }
};

using Parts = std::vector<std::string>;
template<typename F> void refuses_rows(const std::string &argument, const Parts &parts, const F &f) {
    for (bool backward : {false, true})
        refuses<RowsCall>(invalid, argument, parts, [&](RowsCall &c) {
            c.backward = backward;
            f(c);
        });
}
template<typename F> void refuses_forward(const std::string &argument, const Parts &parts, const F &f) {
    refuses<RowsCall>(invalid, argument, parts, f);
}
template<typename F> void refuses_gradient(const std::string &argument, const Parts &parts, const F &f) {
    refuses<RowsCall>(invalid, argument, parts, [&](RowsCall &c) {
        c.backward = true;
        f(c);
    });
}
template<typename F> void refuses_pages(const std::string &argument, const Parts &parts, const F &f) {
    refuses<PagesCall>(invalid, argument, parts, f);
}
template<typename F> void refuses_cache(const std::string &argument, const Parts &parts, const F &f) {
    refuses<CacheCall>(invalid, argument, parts, f);
}
}  // namespace

TEST_CASE("bad rows: tensors", "[rows][bad_input]") {
    refuses_rows("x", {"rank", "3", "4", "2"}, [](RowsCall &c) { c.x = {floats.data(), {8, 16}}; });
    refuses_rows("x", {"type", "i32"}, [](RowsCall &c) { c.x = {numbers.data(), {1, 1, 8}}; });
    refuses_rows("x", {"last stride", "2"}, [](RowsCall &c) { c.x = {floats.data(), {2, 3, 5, 32}, {960, 320, 64, 2}}; });
    refuses_rows("x", {"last extent", "0"},
                 [](RowsCall &c) { c.x.extent[3] = 0, c.out.extent[3] = 0, c.grad_x.extent[3] = 0; });
    refuses_forward("out", {"rank", "3", "4"}, [](RowsCall &c) { c.out = {c.arrays.out.data(), {5, 3, 32}}; });
    refuses_forward("out", {"extent 2", "4", "5"}, [](RowsCall &c) { c.out.extent[2] = 4; });
    refuses_forward("out", {"type", "f64", "f32"}, [](RowsCall &c) { c.out.dtype = attune::DType::f64; });
    refuses_forward("out", {"overlaps x"}, [](RowsCall &c) {
        c.x = c.out, c.x.extent[2] = c.out.extent[2] = c.positions.extent[1] = 4;
        c.x.data = static_cast<const float *>(c.x.data) + 16;
    });
    refuses_forward("out", {"overlap each other"}, [](RowsCall &c) { c.out.stride[1] = 0; });
    refuses_gradient("grad_out", {"extent 1", "2", "3"}, [](RowsCall &c) { c.grad_out.extent[1] = 2; });
    refuses_gradient("grad_x", {"type", "f64", "f32"}, [](RowsCall &c) { c.grad_x.dtype = attune::DType::f64; });
    refuses_gradient("grad_x", {"overlaps grad_out"}, [](RowsCall &c) { c.grad_out = c.grad_x; });
    refuses_gradient("grad_weight", {"norm_weight"}, [](RowsCall &c) { c.steps.norm_weight = {}; });
    refuses_gradient("grad_weight", {"rank", "1", "2"}, [](RowsCall &c) { c.grad_weight.rank = 2; });
    refuses_gradient("grad_weight", {"extent 0", "31", "32"}, [](RowsCall &c) { c.grad_weight.extent[0] = 31; });
    refuses_gradient("grad_weight", {"f32", "bf16"}, [](RowsCall &c) { c.grad_weight.dtype = attune::DType::bf16; });
}

TEST_CASE("bad rows: steps", "[rows][bad_input]") {
    refuses_rows("norm_weight", {"rank", "3"}, [](RowsCall &c) { c.steps.norm_weight = {floats.data(), {1, 3, 32}}; });
    refuses_rows("norm_weight", {"last extent", "16", "32"}, [](RowsCall &c) { c.steps.norm_weight = {floats.data(), {16}}; });
    refuses_rows("norm_weight", {"heads", "2", "3"}, [](RowsCall &c) { c.steps.norm_weight = {floats.data(), {2, 32}}; });
    refuses_rows("norm_weight", {"type", "f64"}, [](RowsCall &c) { c.steps.norm_weight = {doubles.data(), {32}}; });
    refuses_rows("norm_eps", {"-1"}, [](RowsCall &c) { c.steps.norm_eps = -1; });
    refuses_rows("norm_eps", {"finite"}, [](RowsCall &c) { c.steps.norm_eps = std::numeric_limits<double>::quiet_NaN(); });
    refuses_rows("rope.sin", {"not given"}, [](RowsCall &c) { c.steps.rope.sin = {}; });
    refuses_rows("rope.cos", {"rank", "2", "1"}, [](RowsCall &c) { c.steps.rope.cos = {angles.data(), {16}}; });
    refuses_rows("rope.cos", {"last extent", "16", "8"}, [](RowsCall &c) { c.steps.rope.cos = {angles.data(), {100, 8}}; });
    refuses_rows("rope.cos", {"type", "f32", "f64"}, [](RowsCall &c) { c.steps.rope.cos = {doubles.data(), {100, 16}}; });
    refuses_rows("rope.sin", {"positions", "99", "100"}, [](RowsCall &c) { c.steps.rope.sin.extent[0] = 99; });
    refuses_rows("rope.scaling", {"2", "tables"}, [](RowsCall &c) { c.steps.rope.scaling = 2; });
    refuses_rows("rope.base", {"10000", "tables"}, [](RowsCall &c) { c.steps.rope.base = 10000; });
    refuses_rows("rope.pairs", {"0", "1", "7"}, [](RowsCall &c) { c.steps.rope.pairs = static_cast<attune::RopePairs>(7); });
    refuses_rows("rope.dim", {"even", "31"}, [](RowsCall &c) { c.steps.rope.dim = 31; });
    refuses_rows("rope.dim", {"-2"}, [](RowsCall &c) { c.steps.rope.dim = -2; });
    refuses_rows("rope.offset", {"-1"}, [](RowsCall &c) { c.steps.rope.offset = -1; });
    refuses_rows("rope.offset", {"1", "32"}, [](RowsCall &c) { c.steps.rope.offset = 1; });
    refuses_rows("rope.offset", {"9007199254740993"}, [](RowsCall &c) { c.steps.rope.offset = (std::int64_t(1) << 53) + 1; });
    const auto by_base = [](double base, double scaling) {
        return [=](RowsCall &c) { c.steps.rope = {.base = base, .scaling = scaling}; };
    };
    refuses_rows("rope.base", {"1"}, by_base(1, 1));
    refuses_rows("rope.base", {"-5"}, by_base(-5, 1));
    refuses_rows("rope.scaling", {"0"}, by_base(10000, 0));
    refuses_rows("rope.dim", {"without tables"}, [](RowsCall &c) { c.steps.rope = {.dim = 16}; });
    refuses_rows("positions", {"not given"}, [](RowsCall &c) { c.positions = {}; });
    refuses_rows("positions", {"rank", "2", "1"}, [](RowsCall &c) { c.positions = {numbers.data(), {10}}; });
    refuses_rows("positions", {"type", "i32", "f32"}, [](RowsCall &c) { c.positions = {floats.data(), {2, 5}}; });
    refuses_rows("positions", {"rows", "4", "5"}, [](RowsCall &c) { c.positions = {numbers.data(), {2, 4}}; });
    refuses_rows("positions", {"(1, 2)", "-1"}, [](RowsCall &c) { c.arrays.positions.data()[7] = -1; });
    refuses_rows("positions", {"(0, 4)", "100"}, [](RowsCall &c) { c.arrays.positions.data()[4] = 100; });
    refuses_rows("hadamard", {"8", "12"}, [](RowsCall &c) {
        for (View *v : {&c.out, &c.grad_x, &c.grad_weight}) v->extent[v->rank - 1] = 12;
        c.x.extent[3] = c.grad_out.extent[3] = c.steps.norm_weight.extent[0] = 12, c.steps.rope = {};
    });
}

TEST_CASE("bad rope_tables", "[rows][bad_input]") {
    attune::Context context;
    Array<float> cos({4, 6}), sin({4, 6});
    const auto refused_with = [&](const std::string &argument, double base, double scaling, View c, View s) {
        const auto status = attune::rope_tables(context, base, scaling, c, s);
        INFO(status.message());
        CHECK(status.code() == invalid);
        CHECK(message_defect(status.message(), argument, {}) == "");
        CHECK(cos.untouched());
        CHECK(sin.untouched());
    };
    View other = sin.view();
    other.extent[1] = 5;
    refused_with("base", 1, 1, cos.view(), sin.view());
    refused_with("scaling", 10, -1, cos.view(), sin.view());
    refused_with("sin", 10, 1, cos.view(), other);
    refused_with("sin", 10, 1, cos.view(), cos.view());
    refused_with("cos", 10, 1, {}, sin.view());
}

TEST_CASE("bad appends to pages: rows and slots", "[append][bad_input]") {
    refuses_pages("key", {"rank", "3", "4"}, [](PagesCall &c) { c.key = {floats.data(), {1, 2, 7, 64}}; });
    refuses_pages("value", {"type", "f64", "f32"}, [](PagesCall &c) { c.value.dtype = attune::DType::f64; });
    refuses_pages("value", {"rows", "6", "7"}, [](PagesCall &c) { c.value.extent[0] = 6; });
    refuses_pages("value", {"heads", "1", "2"}, [](PagesCall &c) { c.value.extent[1] = 1; });
    refuses_pages("slots", {"type", "i64", "i32"}, [](PagesCall &c) { c.slots = {numbers.data(), {7}}; });
    refuses_pages("slots", {"rank", "1", "2"}, [](PagesCall &c) { c.slots = {c.arrays.slots.data(), {1, 7}}; });
    refuses_pages("slots", {"entries", "6", "7"}, [](PagesCall &c) { c.slots.extent[0] = 6; });
    refuses_pages("slots", {"(2)", "96", "95"}, [](PagesCall &c) { c.arrays.slots[2] = 96; });
    refuses_pages("slots", {"(6)", "-2"}, [](PagesCall &c) { c.arrays.slots[6] = -2; });
    refuses_pages("slots", {"twice"}, [](PagesCall &c) { c.arrays.slots[6] = c.arrays.slots[0]; });
    refuses_pages("slots", {"slot 0", "twice"}, [](PagesCall &c) { c.arrays.slots[6] = c.arrays.slots[0] = 0; });
    refuses_pages("positions", {"not given"}, [](PagesCall &c) { c.options.positions = {}; });
    refuses_pages("positions", {"(3)", "-7"}, [](PagesCall &c) { c.arrays.keys.positions.data()[3] = -7; });
    refuses_pages("key_steps.norm_weight", {"63", "64"}, [](PagesCall &c) { c.options.key_steps.norm_weight.extent[0] = 63; });
    refuses_pages("rotate_values", {"8", "20"}, [](PagesCall &c) {
        c.options.rotate_values = true;
        c.value.extent[2] = c.value_pages.rows.extent[3] = 20;
    });
    const float not_finite[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
    for (float x : not_finite) {
        refuses_pages("key", {"row 4", "NaN"}, [=](PagesCall &c) { c.arrays.keys.x(0, 1, 4, 63) = x; });
        refuses_pages("value", {"row 0", "NaN"}, [=](PagesCall &c) { c.arrays.values.x(0, 0, 0, 0) = -x; });
        refuses_pages("key_steps.norm_weight", {"NaN"}, [=](PagesCall &c) { c.arrays.keys.weight.data()[9] = x; });
    }
    refuses_pages("value", {"row 2", "f32"}, [](PagesCall &c) {
        c.options.rotate_values = true;
        c.arrays.values.x(0, 0, 2, 3) = 1e38f;
    });
}

TEST_CASE("bad appends to pages: pages", "[append][bad_input]") {
    refuses_pages("key_pages.rows", {"rank", "4", "3"}, [](PagesCall &c) { c.key_pages.rows.rank = 3; });
    refuses_pages("key_pages.rows", {"type", "f32", "i8", "u8", "bf16"},
                  [](PagesCall &c) { c.key_pages.rows.dtype = attune::DType::bf16; });
    refuses_pages("key_pages.rows", {"16", "8"}, [](PagesCall &c) { c.key_pages.rows.extent[1] = 8; });
    refuses_pages("key_pages.rows", {"16", "24"}, [](PagesCall &c) { c.key_pages.rows.extent[1] = 24; });
    refuses_pages("key_pages.rows", {"heads", "3", "2"}, [](PagesCall &c) { c.key_pages.rows.extent[2] = 3; });
    refuses_pages("key_pages.rows", {"last extent", "32", "64"}, [](PagesCall &c) { c.key_pages.rows.extent[3] = 64; });
    refuses_pages("key_pages.rows", {"last stride"}, [](PagesCall &c) { c.key_pages.rows.stride[3] = 2; });
    refuses_pages("key_pages.rows", {"multiple", "page"}, [](PagesCall &c) { c.key_pages.rows.stride[0] += 1; });
    refuses_pages("key_pages.rows", {"overlap each other"}, [](PagesCall &c) { c.key_pages.rows.stride[0] = 0; });
    refuses_pages("value_pages", {"pages", "5", "6"},
                  [](PagesCall &c) { c.value_pages.rows.extent[0] = c.value_pages.scale.extent[0] = 5; });
    refuses_pages("key_pages.rows", {"even", "63"}, [](PagesCall &c) { c.options = {}, c.key.extent[2] = 63; });
    refuses_pages("key_pages.scale", {"not given"}, [](PagesCall &c) { c.key_pages.scale = {}; });
    refuses_pages("key_pages.minimum", {"not given"}, [](PagesCall &c) { c.key_pages.minimum = {}; });
    refuses_pages("key_pages.scale", {"f16", "f32"}, [](PagesCall &c) { c.key_pages.scale.dtype = attune::DType::f32; });
    refuses_pages("key_pages.scale", {"4", "64", "32"}, [](PagesCall &c) { c.key_pages.scale.extent[3] = 4; });
    refuses_pages("key_pages.minimum", {"1", "2"}, [](PagesCall &c) { c.key_pages.minimum.extent[3] = 1; });
    refuses_pages("key_pages.minimum", {"pages", "5", "6"}, [](PagesCall &c) { c.key_pages.minimum.extent[0] = 5; });
    refuses_pages("key_pages.minimum", {"overlaps key_pages.scale"},
                  [](PagesCall &c) { c.key_pages.minimum = c.key_pages.scale; });
    refuses_pages("value_pages.scale", {"not given"}, [](PagesCall &c) { c.value_pages.scale = {}; });
    refuses_pages("value_pages.minimum", {"none"}, [](PagesCall &c) { c.value_pages.minimum = c.key_pages.minimum; });
    refuses_pages("value_pages.scale", {"rank", "4"}, [](PagesCall &c) { c.value_pages.scale.rank = 4; });
    refuses_pages("value_pages.scale", {"f32", "f16", "bf16"},
                  [](PagesCall &c) { c.value_pages.scale.dtype = attune::DType::bf16; });
    refuses_pages("value_pages.scale", {"heads", "1", "2"}, [](PagesCall &c) { c.value_pages.scale.extent[2] = 1; });
    static std::vector<float> scales(2 * 32, 0.1f);
    const auto own = [](std::initializer_list<std::int64_t> extents) {
        return [=](PagesCall &c) { c.value_pages.scale = {scales, attune::Dims(extents)}; };
    };
    refuses_pages("value_pages.scale", {"(1)", "(2)"}, own({2}));
    refuses_pages("value_pages.scale", {"last extent", "16", "32"}, own({2, 16}));
    for (float x : {0.f, -1.f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        scales[33] = x;
        refuses_pages("value_pages.scale", {"(1, 1)", "more than 0"}, own({2, 32}));
    }
    scales[33] = 0.1f;
    refuses_pages("value_pages.scale", {"f32", "f16"}, [&](PagesCall &c) {
        own({1})(c);
        c.value_pages.scale.dtype = attune::DType::f16;
    });
    refuses_pages("value_pages.scale", {"is given", "f32"}, [](PagesCall &c) {
        static std::vector<float> memory(6 * 16 * 2 * 32);
        c.value_pages.rows = {memory, {6, 16, 2, 32}};
    });
}

TEST_CASE("bad steps of kv_append", "[kv_cache][rows][bad_input]") {
    refuses_cache("positions", {"slides"}, [](CacheCall &c) { c.options.when_full = attune::CacheWhenFull::slide; });
    refuses_cache("positions", {"(1, 0)", "5"}, [](CacheCall &c) {
        c.options.key_steps.rope.cos.extent[0] = c.options.key_steps.rope.sin.extent[0] = 5;
        c.held[0] = 0;
    });
    refuses_cache("key_steps.rope.dim", {"even", "33"}, [](CacheCall &c) { c.options.key_steps.rope.dim = 33; });
    refuses_cache("rotate_values", {"8", "12"}, [](CacheCall &c) { c.options.rotate_values = true; });
    refuses_cache("key_cache", {"overlaps key_steps.norm_weight"}, [](CacheCall &c) {
        c.options.key_steps.norm_weight = {c.key_memory.data(), {32}};
    });
}
