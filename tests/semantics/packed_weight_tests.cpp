// SPDX-License-Identifier: MIT
// Packed weights: the bits of linear with them (docs/conventions.md row 36), and bad input.
#include "tests/support/linear_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

// Checks that packed weights give the bits of the unpacked ones, for one row, few and many.
template<typename T> void check_packed_bits(const LinearCase &c) {
    attune::Context context({.threads = 2});
    LinearArrays<T> plain(c), packed(c);
    packed.c.packed = true;
    INFO(describe(packed.c) << ' ' << name_of(attune::dtype_of<T>()));
    REQUIRE(plain.run(context).ok());
    REQUIRE(packed.run(context).ok());
    CHECK(context.last_variant().rfind("linear_packed_", 0) == 0);
    CHECK(same_bits(plain.out.values(), packed.out.values()));
    CHECK(defect(packed) == "");
}

}  // namespace

TEST_CASE("linear: packed weights give the same bits, in every type", "[linear][semantics]") {
    unsigned seed = 1;
    for (std::int64_t rows : {1, 3, 259})
        for (const auto &[columns, depth] : {std::pair(1, 1), {3, 2}, {63, 300}, {64, 64}, {65, 513}, {200, 1025}}) {
            LinearCase c{.leading = {rows}, .columns = columns, .depth = depth, .bias = seed % 2 == 0};
            c.order = Order(seed % 4), c.seed = seed, seed++;
            check_packed_bits<float>(c);
            check_packed_bits<double>(c);
            check_packed_bits<BFloat16>(c);
            check_packed_bits<Float16>(c);
        }
}

TEST_CASE("bad input: packed weights", "[linear][bad_input]") {
    attune::Context context;
    const auto refused = [&](const std::string &argument, const std::vector<std::string> &parts, const auto &spoil,
                             attune::StatusCode code = invalid) {
        LinearArrays<float> a({.leading = {2, 3}, .columns = 70, .depth = 5, .packed = true});
        a.weight_view(context);
        ConstView x = a.x.view(), weight = a.packed.view(), bias = a.bias.view();
        View out = a.out.view();
        spoil(x, weight, bias, out);
        const attune::Status status = attune::linear(context, x, weight, bias, out);
        INFO(status.message());
        CHECK(status.code() == code);
        CHECK(message_defect(status.message(), argument, parts) == "");
        CHECK(a.out.untouched());
    };
    using C = ConstView;
    refused("weight", {"(2, 6, 64)", "(2, 5, 64)", "f32"}, [](C &, C &w, C &, View &) { w.extent[1] = 6, w.stride[0] = 0; });
    refused("weight", {"(1, 5, 64)", "70", "(2, 5, 64)"}, [](C &, C &w, C &, View &) { w.extent[0] = 1; });
    refused("weight", {"(2, 5, 32)", "(2, 5, 64)"}, [](C &, C &w, C &, View &) { w.extent[2] = 32; });
    refused("weight", {"bf16", "f32"}, [](C &, C &w, C &, View &) { w.dtype = attune::DType::bf16; });
    refused("weight", {"last stride", "2"}, [](C &, C &w, C &, View &) { w.stride[2] = 2, w.stride[1] = 0; });
    refused("weight", {"null"}, [](C &, C &w, C &, View &) { w.data = nullptr; });
    refused("weight", {"2", "3", "4"}, [](C &, C &w, C &, View &) { w.rank = 4, w.extent[3] = 1; });
    refused("weight", {"64 columns", "(2, 5, 64)"}, [](C &, C &, C &, View &o) { o.extent[2] = 64; });
    refused("bias", {"64", "out", "70"}, [](C &, C &, C &b, View &) { b.extent[0] = 64; });
    refused("out", {"overlaps weight"}, [](C &, C &w, C &, View &o) { w.data = o.data; });
    refused(
        "weight", {"device"}, [](C &, C &w, C &, View &) { w.place = attune::Place::device; }, unsupported);
    LinearArrays<float> a({.columns = 70, .depth = 5, .packed = true});
    const ConstView packed = a.weight_view(context);
    for (const char *of_plain : {"linear_f32_generic_root", "pack_linear_weight_f32_generic_root"}) {
        const auto status = attune::linear(context, a.x.view(), packed, {}, a.out.view(), {.variant = of_plain});
        CHECK(message_defect(status.message(), "variant", {of_plain, "linear_packed"}) == "");
        CHECK(a.out.untouched());
    }
}

TEST_CASE("bad input: pack_linear_weight", "[linear][bad_input]") {
    attune::Context context;
    const auto refused = [&](const std::string &argument, const std::vector<std::string> &parts, const auto &spoil,
                             attune::StatusCode code = invalid) {
        Array<BFloat16> weight({70, 5}), packed({2, 3, 128});
        ConstView from = weight.view();
        View to = packed.view();
        spoil(from, to);
        const attune::Status status = attune::pack_linear_weight(context, from, to);
        INFO(status.message());
        CHECK(status.code() == code);
        CHECK(message_defect(status.message(), argument, parts) == "");
        CHECK(packed.untouched());
    };
    using C = ConstView;
    refused("weight", {"2", "0"}, [](C &w, View &) { w = {}; });
    refused("weight", {"2", "3"}, [](C &w, View &) { w.rank = 3, w.extent[2] = 1; });
    refused("weight", {"i32"}, [](C &w, View &) { w.dtype = attune::DType::i32; });
    refused("weight", {"first extent", "0"}, [](C &w, View &) { w.extent[0] = 0; });
    refused("weight", {"last extent", "0"}, [](C &w, View &) { w.extent[1] = 0; });
    refused("weight", {"last stride", "2"}, [](C &w, View &) { w.stride[1] = 2; });
    refused("packed", {"3", "2"}, [](C &, View &p) { p.rank = 2; });
    refused("packed", {"f16", "bf16"}, [](C &, View &p) { p.dtype = attune::DType::f16; });
    refused("packed", {"(2, 3, 64)", "(2, 3, 128)", "bf16"}, [](C &, View &p) { p.extent[2] = 64; });
    refused("packed", {"(2, 2, 128)", "70", "5", "(2, 3, 128)"}, [](C &, View &p) { p.extent[1] = 2; });
    refused("packed", {"stride 1", "128", "256"}, [](C &, View &p) { p.stride[1] = 256; });
    refused("packed", {"stride 0", "384", "500"}, [](C &, View &p) { p.stride[0] = 500; });
    refused("packed", {"overlaps weight"}, [](C &w, View &p) { w.data = p.data; });
    refused("packed", {"null"}, [](C &, View &p) { p.data = nullptr; });
    refused(
        "weight", {"device"}, [](C &w, View &) { w.place = attune::Place::device; }, unsupported);
}
