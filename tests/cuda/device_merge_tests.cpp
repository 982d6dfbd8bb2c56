// SPDX-License-Identifier: MIT
// The merge of attentions on a device.
#include "tests/cuda/device_variants.h"
#include "tests/support/merge_parts_case.h"
#include <cmath>

using namespace attune_test;
using attune::ConstView, attune::Place, attune::View;

namespace {
const float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();
}  // namespace

TEST_CASE("device: merge of any number of parts, layouts, in place", "[device]") {
    attune::Context context;
    for_each_device_variant("merge", {""}, [&](const attune::VariantRecord &v, auto zero) {
        using T = decltype(zero);
        const std::int64_t rows = attune::parameter_of(v, "block_rows", 0);
        unsigned seed = 1;
        for (const std::size_t parts : {1u, 2u, 3u, 8u})
            for (const auto &[queries, value_dim] : {std::pair(std::int64_t(1), 1), {rows - 1, 33}, {rows, 64}, {rows + 1, 20}})
                for (const double spread : {4.0, 200.0}) {
                    MergePartsCase c{.parts = parts, .queries = queries, .value_dim = value_dim, .lse_spread = spread};
                    c.layouts = {Layout::dense, Layout::padded, Layout::bshd};
                    c.place = Place::device, c.seed = seed++;
                    c.strided_lse = seed % 2, c.some_empty = seed % 3 == 0, c.wants_lse = seed % 5 != 0;
                    if (seed % 4 == 0) c.in_place = static_cast<int>(seed % parts);
                    check_case<T>(context, c);
                }
        CHECK(context.last_variant() == v.name);
    });
}

TEST_CASE("device: merge of parts without keys, and of numbers that are none", "[device]") {
    attune::Context context;
    for_each_device_variant("merge", {""}, [&](const attune::VariantRecord &, auto zero) {
        using T = decltype(zero);
        // On the heap, since no GPU reaches the stack.
        const auto merged = [&](const std::vector<std::pair<float, float>> &of_parts) {
            std::vector<T> outs;
            std::vector<float> lses, lse{7};
            std::vector<T> out{T(7)};
            for (const auto &[row, of_row] : of_parts) outs.push_back(T(row)), lses.push_back(of_row);
            std::vector<attune::PartialAttention> parts;
            for (std::size_t n = 0; n < outs.size(); n++)
                parts.push_back({on_device(ConstView(&outs[n], {1, 1})), on_device(ConstView(&lses[n], {1}))});
            const auto status = attune::merge_attention(context, parts.data(), parts.size(),
                                                        on_device(View(out.data(), {1, 1})), on_device(View(lse.data(), {1})));
            CHECK(status.message() == "");
            return std::pair(float(out[0]), lse[0]);
        };
        CHECK(merged({{not_a_number, -inf}, {3, 2}}) == std::pair(3.f, 2.f));
        CHECK(merged({{3, 2}, {inf, -inf}}) == std::pair(3.f, 2.f));
        CHECK(merged({{not_a_number, -inf}, {not_a_number, -inf}, {1, -inf}}) == std::pair(0.f, -inf));
        CHECK(merged({{inf, 2}, {1, -inf}}) == std::pair(inf, 2.f));
        CHECK(merged({{3, inf}, {1, -inf}}) == std::pair(3.f, inf));
        CHECK(merged({{1, 5}, {3, 5}}).first == 2);
        CHECK(merged({{1, 500}, {3, -500}}) == std::pair(1.f, 500.f));
        CHECK(merged({{1, 1e30f}, {3, -1e30f}}) == std::pair(1.f, 1e30f));
        CHECK(merged({{1, inf}, {3, 2}}) == std::pair(1.f, inf));
        CHECK(std::isnan(merged({{not_a_number, -200}, {3, 2}}).first));
        CHECK(merged({{not_a_number, -200}, {3, 2}}).second == 2);
        for (const float other : {2.f, -300.f, 300.f})
            for (const bool first : {false, true}) {
                const std::pair<float, float> nan{1, not_a_number}, number{3, other};
                const auto [out, lse] = first ? merged({nan, number}) : merged({number, nan});
                CHECK(std::isnan(out));
                CHECK(std::isnan(lse));
            }
        CHECK(std::isnan(merged({{1, -inf}, {3, not_a_number}}).second));
        CHECK(merged({{1, -inf}, {3, not_a_number}}).first == 3);
    });
}

TEST_CASE("device: merge of nothing, and what it refuses", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    for (const auto &[batch, heads, queries] : {std::tuple(0, 2, 3), {2, 0, 3}, {2, 2, 0}})
        check_case<float>(context, {.batch = batch, .heads = heads, .queries = queries, .place = Place::device});
    // Halide's runtime of OpenCL takes no buffer without elements.
    if (attune::device_backend()->target.find("opencl") == std::string_view::npos)
        check_case<float>(context, {.value_dim = 0, .place = Place::device});

    const auto refused = [&](MergePartsCase c, const auto &change) {
        c.place = Place::device;
        MergePartsArrays<float> a(c);
        auto parts = a.parts();
        View out = a.placed(a.out.view()), lse = a.placed(a.lse.view());
        change(parts, out, lse);
        const std::string message = attune::merge_attention(context, parts.data(), parts.size(), out, lse).message();
        CHECK(a.out.untouched());
        CHECK(a.lse.untouched());
        return message;
    };
    using Parts = std::vector<attune::PartialAttention>;
    CHECK(refused({}, [](Parts &parts, View &, View &) { parts[1].lse.place = Place::host; }) ==
          "parts[1].lse: is on the host, parts[0].out is on a device");
    CHECK(refused({}, [](Parts &, View &out, View &) { out.place = Place::host; }) ==
          "out: is on the host, parts[0].out is on a device");
    CHECK(refused({}, [](Parts &parts, View &, View &) { parts[2].out.extent[2]--; }) ==
          "parts[2].out: extent 2 is 4, that of parts[0].out is 5");
    CHECK(refused({.parts = 9}, [](Parts &, View &, View &) {}) == "count: at most 8 parts are merged on a device, got 9");
    MergePartsArrays<double> wide({.place = Place::device});
    CHECK(wide.run(context).message() == "parts[0].out: there are no kernels for f64 on a device");
}
