// SPDX-License-Identifier: MIT
// linear and batch_dot through the dispatcher: results, independence of rows (docs/conventions.md row 36), views, and bad
// input.
#include "tests/support/linear_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

TEST_CASE("linear: every rank, both types, with and without bias", "[linear][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (const std::vector<std::int64_t> &leading :
         {std::vector<std::int64_t>{}, {1}, {300}, {2, 40}, {64, 1}, {3, 2, 5}, {1, 1, 1}})
        for (const auto &[columns, depth] : {std::pair(1, 1), {3, 18}, {100, 100}, {64, 513}})
            for (bool batched : {false, true}) {
                if (batched && leading.empty()) continue;
                LinearCase c{.leading = leading, .columns = columns, .depth = depth, .bias = seed % 2 == 0, .seed = seed};
                c.order = Order(seed++ % 4);
                check_case<float>(context, c, batched);
                check_case<double>(context, c, batched);
            }
}

TEST_CASE("linear: work for several threads", "[linear][semantics]") {
    attune::Context context;
    for (bool batched : {false, true}) {
        check_case<float>(context, {.leading = {3, 523}, .columns = 300, .depth = 261, .order = Order::padded}, batched);
        check_case<double>(context, {.leading = {3, 130}, .columns = 301, .depth = 257, .order = Order::swapped}, batched);
    }
}

// Rows of several batch entries share a tile where their strides allow it, and a single row runs another variant.
TEST_CASE("linear: bits of a row depend on that row alone", "[linear][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), seven({.threads = 7});
    for (const auto &[columns, depth] : {std::pair(130, 700), {3, 300}, {512, 64}, {60, 33}}) {
        INFO("columns " << columns << " depth " << depth);
        LinearArrays<float> all({.leading = {4, 3, 25}, .columns = columns, .depth = depth});
        REQUIRE(all.run(two).ok());
        const std::vector<float> expected = all.out.values();
        for (attune::Context *context : {&one, &seven}) {
            LinearArrays<float> again(all.c);
            REQUIRE(again.run(*context).ok());
            CHECK(same_bits(expected, again.out.values()));
        }
        const auto same = [&](Array<float> &out, std::int64_t first, std::int64_t count) {
            const std::vector<float> some = out.values();
            return same_bits(some,
                             std::vector(expected.begin() + first * columns, expected.begin() + (first + count) * columns));
        };
        const float *x = all.x.data();
        const ConstView weight = all.weight.view(), bias = all.bias_view();
        for (std::int64_t row : {0, 26, 299}) {
            Array<float> out({columns}, {1});
            REQUIRE(attune::linear(two, ConstView(x + row * depth, {depth}), weight, bias, out.view()).ok());
            CHECK(same(out, row, 1));
        }
        for (std::int64_t count : {2, 7, 100}) {
            Array<float> out({count, columns}, {columns, 1});
            REQUIRE(attune::linear(two, ConstView(x + 100 * depth, {count, depth}), weight, bias, out.view()).ok());
            CHECK(same(out, 100, count));
        }
        // The rows as batch entries far apart.
        const std::int64_t head = 25 * (columns + 1) + 4;
        Array<float> apart({4, 3, 25, columns}, {3 * head + 9, head, columns + 1, 1});
        REQUIRE(attune::linear(two, all.x.view(), weight, bias, apart.view()).ok());
        CHECK(same(apart, 0, 300));
    }
}

TEST_CASE("batch_dot: bits of an entry depend on that entry alone", "[batch_dot][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2});
    LinearArrays<float> all({.leading = {5, 2, 30}, .columns = 65, .depth = 300}, true);
    REQUIRE(all.run(two).ok());
    const std::vector<float> expected = all.out.values();
    LinearArrays<float> again(all.c, true);
    REQUIRE(again.run(one).ok());
    CHECK(same_bits(expected, again.out.values()));
    Array<float> out({30, 65}, {65, 1});
    const ConstView a(all.x.data() + 7 * 30 * 300, {30, 300}), x(all.weight.data() + 7 * 300 * 65, {300, 65});
    REQUIRE(attune::batch_dot(two, a, x, out.view()).ok());
    CHECK(same_bits(out.values(), std::vector(expected.begin() + 7 * 30 * 65, expected.begin() + 8 * 30 * 65)));
}

TEST_CASE("linear: an input that repeats by stride 0, and weights between other rows", "[linear][semantics]") {
    attune::Context context;
    LinearArrays<float> a({.leading = {3, 4}, .columns = 6, .depth = 8});
    const View dense = a.x.view();
    View x = dense;
    x.stride[0] = 0;
    View weight = a.weight.view();
    weight.extent[0] = 3, weight.stride[0] = 16;  // every other row
    Array<float> out({3, 4, 3}, {12, 3, 1});
    REQUIRE(attune::linear(context, x, weight, {}, out.view()).ok());
    CHECK(judge(linear_reference<double, float>(x, weight, {}).data, linear_reference<float, float>(x, weight, {}).data,
                out.values())
              .right);
    const std::vector<float> rows = out.values();
    CHECK(same_bits(std::vector(rows.begin(), rows.begin() + 12), std::vector(rows.begin() + 12, rows.begin() + 24)));
}

TEST_CASE("batch_dot: one matrix for all entries by stride 0", "[batch_dot][semantics]") {
    attune::Context context;
    LinearArrays<double> a({.leading = {3, 4}, .columns = 6, .depth = 8}, true);
    View x = a.weight.view();
    x.stride[0] = 0;
    REQUIRE(attune::batch_dot(context, a.x.view(), x, a.out.view()).ok());
    CHECK(judge(batch_dot_reference<long double, double>(a.x.view(), x).data,
                batch_dot_reference<double, double>(a.x.view(), x).data, a.out.values())
              .right);
}

// Columns that leave most of a wide tile unfilled run another variant, and one column of many rows runs as one row; neither
// changes bits.
TEMPLATE_TEST_CASE("linear: the last columns and one column have the bits of one variant for all", "[linear][runtime]", float,
                   double, BFloat16, Float16) {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (const bool batched : {false, true})
        for (const std::int64_t columns : {1, 17, 33, 65, 80, 96, 129, 197})
            for (const Order order : {Order::dense, Order::padded, Order::swapped}) {
                const std::vector<std::int64_t> leading =
                    batched ? std::vector<std::int64_t>{3, 29} : std::vector<std::int64_t>{29};
                LinearCase c{.leading = leading, .columns = columns, .depth = 261, .bias = seed % 2 == 0, .order = order};
                c.seed = seed++;
                INFO((batched ? "batch_dot " : "linear ") << describe(c));
                LinearArrays<TestType> a(c, batched), by_one(c, batched);
                REQUIRE(a.run(context).ok());
                CHECK(defect(a) == "");
                const std::string variant = context.last_variant();
                INFO(variant);
                REQUIRE(by_one.run(context, variant).ok());
                CHECK(same_bits(a.out.values(), by_one.out.values()));
            }
}

TEST_CASE("linear: no rows, and sums of nothing", "[linear][semantics]") {
    attune::Context context;
    for (bool batched : {false, true}) {
        LinearArrays<float> none({.leading = {2, 0}}, batched), no_batch({.leading = {0, 3}}, batched);
        CHECK(none.run(context).ok());
        CHECK(no_batch.run(context).ok());
        CHECK(context.last_variant() == "");
        CHECK((none.out.untouched() && no_batch.out.untouched()));
    }
    LinearArrays<float> empty({.leading = {2, 3}, .columns = 4, .depth = 0, .order = Order::padded}, true);
    CHECK(empty.run(context).ok());
    CHECK(empty.out.values() == std::vector<float>(24, 0.f));
    CHECK(empty.out.gaps_untouched());
    CHECK(context.last_variant() == "");
}

TEST_CASE("linear: which variant ran, and one that is forced", "[linear][runtime]") {
    attune::Context context;
    for (bool batched : {false, true}) {
        const std::string op = batched ? "batch_dot" : "linear";
        LinearArrays<float> a({.leading = {3}}, batched);
        REQUIRE(a.run(context).ok());
        CHECK(context.last_variant().rfind(op + "_f32_", 0) == 0);
        REQUIRE(a.run(context, op + "_f32_generic_root").ok());
        CHECK(context.last_variant() == op + "_f32_generic_root");
        for (const std::string &wrong :
             {op + "_f64_generic_root", std::string("sdpa_f32_dany_generic_root"), std::string("x")}) {
            LinearArrays<float> untouched(a.c, batched);
            const auto status = untouched.run(context, wrong);
            CHECK(status.code() == invalid);
            CHECK(message_defect(status.message(), "variant", {wrong}) == "");
            CHECK(untouched.out.untouched());
        }
    }
}

namespace {

// A legal call whose parts a test spoils: x (2, 3, 5), weight (4, 5), bias (4), out (2, 3, 4); or a (2, 3, 5), x (2, 5, 4).
struct Spoiled {
    LinearArrays<float> arrays;
    ConstView x = arrays.x.view(), weight = arrays.weight.view(), bias = arrays.bias.view();
    View out = arrays.out.view();
    bool batched;
    explicit Spoiled(bool batched) : arrays({.leading = {2, 3}, .columns = 4, .depth = 5}, batched), batched(batched) {}
    attune::Status run(attune::Context &context) {
        return batched ? attune::batch_dot(context, x, weight, out) : attune::linear(context, x, weight, bias, out);
    }
};
using S = Spoiled;

template<typename F>
void refused(bool batched, const std::string &argument, const std::vector<std::string> &parts, const F &f,
             attune::StatusCode code = invalid) {
    attune::Context context;
    Spoiled call(batched), right(batched);
    f(call);
    const attune::Status status = call.run(context);
    INFO(status.message());
    CHECK(status.code() == code);
    CHECK(message_defect(status.message(), argument, parts) == "");
    CHECK(call.arrays.out.untouched());
    CHECK(right.run(context).ok());
    CHECK(defect(right.arrays) == "");
}

}  // namespace

TEST_CASE("bad input: linear", "[linear][bad_input]") {
    const auto linear = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refused(false, argument, parts, f);
    };
    linear("x", {"1", "4", "0"}, [](S &c) { c.x = {}; });
    linear("x", {"1", "4", "5"}, [](S &c) { c.x.rank = 5; });
    linear("x", {"f32, f64, bf16 or f16", "i32"}, [](S &c) { c.x.dtype = attune::DType::i32; });
    linear("weight", {"f16", "bf16"}, [](S &c) { c.x.dtype = attune::DType::bf16, c.weight.dtype = attune::DType::f16; });
    linear("x", {"null"}, [](S &c) { c.x.data = nullptr; });
    linear("x", {"last stride", "2"}, [](S &c) { c.x.stride[2] = 2; });
    linear("x", {"at least 1", "0"}, [](S &c) { c.x.extent[2] = 0; });
    linear("x", {"extent 0", "-1"}, [](S &c) { c.x.extent[0] = -1; });
    linear("weight", {"2", "1"}, [](S &c) { c.weight.rank = 1; });
    linear("weight", {"2", "0"}, [](S &c) { c.weight = {}; });
    linear("weight", {"f64", "f32"}, [](S &c) { c.weight.dtype = attune::DType::f64; });
    linear("weight", {"6", "5"}, [](S &c) { c.weight.extent[1] = 6; });
    linear("weight", {"at least 1", "0"}, [](S &c) { c.weight.extent[0] = 0; });
    linear("weight", {"last stride", "-1"}, [](S &c) { c.weight.stride[1] = -1; });
    linear("bias", {"5", "4"}, [](S &c) { c.bias.extent[0] = 5; });
    linear("bias", {"1", "2"}, [](S &c) { c.bias.rank = 2, c.bias.extent[1] = 1; });
    linear("bias", {"f64", "f32"}, [](S &c) { c.bias.dtype = attune::DType::f64; });
    linear("bias", {"last stride", "0"}, [](S &c) { c.bias.stride[0] = 0; });
    linear("bias", {"null"}, [](S &c) { c.bias.data = nullptr; });
    linear("out", {"2", "3"}, [](S &c) { c.out.rank = 2; });
    linear("out", {"f64", "f32"}, [](S &c) { c.out.dtype = attune::DType::f64; });
    linear("out", {"extent 0", "1", "2"}, [](S &c) { c.out.extent[0] = 1; });
    linear("out", {"extent 1", "2", "3"}, [](S &c) { c.out.extent[1] = 2; });
    linear("out", {"3", "weight", "4"}, [](S &c) { c.out.extent[2] = 3; });
    linear("out", {"overlap"}, [](S &c) { c.out.stride[0] = 0; });
    linear("out", {"overlap"}, [](S &c) { c.out.stride[1] = 3; });
    linear("out", {"overlaps x"}, [](S &c) { c.x.data = c.out.data; });
    linear("out", {"overlaps weight"}, [](S &c) { c.weight.data = c.out.data; });
    linear("out", {"overlaps bias"}, [](S &c) { c.bias.data = c.out.data; });
    refused(
        false, "weight", {"device"}, [](S &c) { c.weight.place = attune::Place::device; }, unsupported);
    refused(
        false, "x", {"2^31"}, [](S &c) { c.x.stride[0] = std::int64_t(1) << 31; }, unsupported);
}

TEST_CASE("bad input: batch_dot", "[batch_dot][bad_input]") {
    const auto batch_dot = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refused(true, argument, parts, f);
    };
    batch_dot("a", {"2", "4", "1"}, [](S &c) { c.x.rank = 1; });
    batch_dot("a", {"i32"}, [](S &c) { c.x.dtype = attune::DType::i32; });
    batch_dot("a", {"last stride", "2"}, [](S &c) { c.x.stride[2] = 2; });
    batch_dot("x", {"2", "3"}, [](S &c) { c.weight.rank = 2; });
    batch_dot("x", {"f64", "f32"}, [](S &c) { c.weight.dtype = attune::DType::f64; });
    batch_dot("x", {"extent 0", "3", "2"}, [](S &c) { c.weight.extent[0] = 3, c.weight.stride[0] = 0; });
    batch_dot("x", {"rows", "4", "5"}, [](S &c) { c.weight.extent[1] = 4; });
    batch_dot("x", {"at least 1", "0"}, [](S &c) { c.weight.extent[2] = 0; });
    batch_dot("x", {"null"}, [](S &c) { c.weight.data = nullptr; });
    batch_dot("out", {"4", "3"}, [](S &c) { c.out.rank = 4, c.out.extent[3] = 1; });
    batch_dot("out", {"extent 0", "1", "2"}, [](S &c) { c.out.extent[0] = 1; });
    batch_dot("out", {"extent 1", "2", "3"}, [](S &c) { c.out.extent[1] = 2; });
    batch_dot("out", {"last extent", "3", "4"}, [](S &c) { c.out.extent[2] = 3; });
    batch_dot("out", {"overlap"}, [](S &c) { c.out.stride[0] = 0; });
    batch_dot("out", {"overlaps a"}, [](S &c) { c.x.data = c.out.data; });
    batch_dot("out", {"overlaps x"}, [](S &c) { c.weight.data = c.out.data; });
}
