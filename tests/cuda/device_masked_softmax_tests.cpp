// SPDX-License-Identifier: MIT
// Every variant of masked_softmax for a device against the reference.
#include "tests/cuda/device_variants.h"
#include "tests/support/masked_softmax_case.h"
#include <cmath>

using namespace attune_test;
using attune::MaskFill;

namespace {
void check(attune::Context &context, const attune::VariantRecord &v, SoftmaxCase c) {
    c.place = attune::Place::device;
    check_case<float>(context, c, v.name);
}
}  // namespace

TEST_CASE("device: masked_softmax, sizes around the lanes of a row", "[device]") {
    attune::Context context;
    for_each_device_variant("masked_softmax", {""}, [&](const attune::VariantRecord &v, float) {
        const int lanes = attune::parameter_of(v, "lanes", 0), turn = lanes * attune::parameter_of(v, "lane_keys", 0);
        const int rows = attune::parameter_of(v, "block_rows", 0);
        unsigned seed = 1;
        for (const std::int64_t keys : {1, 2, 31, lanes - 1, lanes, lanes + 1, turn - 1, turn, turn + 1, 2 * turn + 37})
            for (const std::int64_t queries : {1, 3, rows + 1})
                for (const Lengths lengths : {Lengths::none, Lengths::per_batch, Lengths::per_query})
                    for (const MaskFill fill : {MaskFill::zero, MaskFill::seed})
                        check(context, v, {.queries = queries, .keys = keys, .lengths = lengths, .fill = fill, .seed = seed++});
    });
}

TEST_CASE("device: masked_softmax, layouts, in place, large scores", "[device]") {
    attune::Context context;
    for_each_device_variant("masked_softmax", {""}, [&](const attune::VariantRecord &v, float) {
        const int lanes = attune::parameter_of(v, "lanes", 0);
        unsigned seed = 1;
        for (const Layout layout :
             {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed})
            for (const bool in_place : {false, true}) {
                if (layout == Layout::reversed && !takes_reversed_rows()) continue;
                check(context, v,
                      {.queries = 9, .keys = lanes + 5, .scores_layout = layout, .in_place = in_place, .seed = seed++});
            }
        for (const double spread : {0., 1e-3, 100., 1e4, 1e30})
            for (const MaskFill fill : {MaskFill::zero, MaskFill::seed})
                check(context, v, {.keys = 70, .fill = fill, .spread = spread});
    });
}

TEST_CASE("device: masked_softmax, NaN and infinities", "[device]") {
    attune::Context context;
    for_each_device_variant("masked_softmax", {""}, [&](const attune::VariantRecord &v, float) {
        constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
        constexpr std::int64_t keys = 301, at = 150;
        Array<float> scores({1, 1, 5, keys}), out({1, 1, 5, keys});
        std::mt19937 random(3);
        scores.randomise(random, 3);
        scores(0, 0, 1, at) = nan, scores(0, 0, 2, at) = infinity, scores(0, 0, 3, at) = -infinity;
        for (std::int64_t j = 0; j < keys; j++) scores(0, 0, 4, j) = -infinity;
        REQUIRE(
            attune::masked_softmax(context, on_device(scores.view()), on_device(out.view()), {.variant = v.name}).message() ==
            "");
        for (std::int64_t j = 0; j < keys; j++) {
            CHECK(out(0, 0, 0, j) > 0);
            for (const int row : {1, 2, 4}) CHECK(std::isnan(out(0, 0, row, j)));
            CHECK((out(0, 0, 3, j) == 0) == (j == at));
        }
    });
}

TEST_CASE("device: masked_softmax, lengths beyond the keys, and what is chosen or refused", "[device]") {
    if (!has_device()) return;
    attune::Context context;
    const std::string of_target = "masked_softmax_f32_" + std::string(attune::device_backend()->target) + "_simt_";
    Array<float> scores({2, 3}), out({2, 3});
    scores.each([](float &x) { x = 1; });
    const std::vector<std::int32_t> lens = {99, -5};  // on the heap, since no GPU reaches the stack
    REQUIRE(attune::masked_softmax(context, on_device(scores.view()), on_device(out.view()),
                                   {.valid_lens = on_device(attune::ConstView(lens.data(), {2}))})
                .message() == "");
    for (std::int64_t j = 0; j < 3; j++) {
        CHECK(std::abs(out.data()[j] - 1 / 3.0f) < 1e-6f);
        CHECK(out.data()[3 + j] == 0);
    }
    Array<float> wide({1, 1025}), wide_out({1, 1025});
    REQUIRE(attune::masked_softmax(context, on_device(wide.view()), on_device(wide_out.view())).ok());
    CHECK(context.last_variant() == of_target + "long");

    const auto refused = [&](attune::ConstView in, attune::View to, const attune::MaskedSoftmaxOptions &o) {
        return attune::masked_softmax(context, in, to, o).message();
    };
    CHECK(refused(on_device(scores.view()), out.view(), {}) == "out: is on the host, scores is on a device");
    CHECK(refused(on_device(scores.view()), on_device(out.view()), {.valid_lens = attune::ConstView(lens.data(), {2})}) ==
          "valid_lens: is on the host, scores is on a device");
    CHECK(refused(on_device(scores.view()), on_device(out.view()),
                  {.valid_lens = on_device(attune::ConstView(lens.data(), {1}))}) ==
          "valid_lens: batch (first extent) is 1, that of scores is 2");
    Array<double> of_f64({2, 3}), to_f64({2, 3});
    CHECK(refused(on_device(of_f64.view()), on_device(to_f64.view()), {}) ==
          "scores: there are no kernels for f64 on a device");
}
