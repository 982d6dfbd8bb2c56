// SPDX-License-Identifier: MIT
// masked_softmax through the dispatcher: ranks, lengths, fills (docs/conventions.md row 2), and bad input.
#include "tests/support/environment.h"
#include "tests/support/masked_softmax_case.h"
#include "tests/support/refusals.h"
#include <cmath>

using namespace attune_test;
using attune::ConstView, attune::MaskedSoftmaxOptions, attune::MaskFill, attune::View;

TEST_CASE("masked_softmax: rank 2, 3 and 4 are the same rows", "[masked_softmax][semantics]") {
    attune::Context context({.threads = 2});
    Array<float> x({6, 10});
    std::mt19937 random(5);
    x.randomise(random, 2);
    const std::vector<std::int32_t> per_row{3, 10, 0, 1, 7, 10}, per_batch{3, 7};
    const auto run = [&](std::initializer_list<std::int64_t> extents, const ConstView &lens) {
        std::vector<float> out(60, NAN);
        const auto status =
            attune::masked_softmax(context, ConstView(x.data(), extents), View(out.data(), extents), {.valid_lens = lens});
        INFO(status.message());
        REQUIRE(status.ok());
        return out;
    };
    const auto rows = run({6, 10}, ConstView(per_row.data(), {6}));
    CHECK(same_bits(rows, run({6, 10}, ConstView(per_row.data(), {6, 1}))));
    CHECK(same_bits(rows, run({2, 3, 10}, ConstView(per_row.data(), {2, 3}))));
    CHECK(same_bits(rows, run({2, 1, 3, 10}, ConstView(per_row.data(), {2, 3}))));
    CHECK(same_bits(rows, run({6, 1, 1, 10}, ConstView(per_row.data(), {6}))));
    const std::vector<std::int32_t> repeated{3, 3, 3, 7, 7, 7};
    const auto batches = run({6, 10}, ConstView(repeated.data(), {6}));
    CHECK(same_bits(batches, run({2, 3, 10}, ConstView(per_batch.data(), {2}))));
    CHECK(same_bits(batches, run({2, 3, 1, 10}, ConstView(per_batch.data(), {2}))));  // the same for every head
}

TEST_CASE("masked_softmax: lengths may have any strides", "[masked_softmax][semantics]") {
    attune::Context context;
    SoftmaxArrays<double> a({.lengths = Lengths::per_query});
    Array<std::int32_t> lens({2, 5}, {1, -3});
    std::size_t n = 0;
    lens.each([&](std::int32_t &x) { x = a.lens.values()[n++]; });
    REQUIRE(attune::masked_softmax(context, a.scores.view(), a.out.view(), a.options({})).ok());
    Array<double> out({2, 2, 5, 7});
    REQUIRE(attune::masked_softmax(context, a.scores.view(), out.view(), {.valid_lens = lens.view()}).ok());
    CHECK(same_bits(a.out.values(), out.values()));
}

TEST_CASE("masked_softmax: rows without keys", "[masked_softmax][semantics]") {
    attune::Context context;
    const std::vector<float> x{1, 2, 3, 4};
    const std::int32_t none = 0;
    std::vector<float> out(4, NAN);
    MaskedSoftmaxOptions options{.valid_lens = ConstView(&none, {1})};
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {1, 4}), View(out.data(), {1, 4}), options).ok());
    CHECK(out == std::vector<float>{0, 0, 0, 0});
    options.fill = MaskFill::seed;
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {1, 4}), View(out.data(), {1, 4}), options).ok());
    CHECK(out == std::vector<float>{0.25, 0.25, 0.25, 0.25});
}

TEST_CASE("masked_softmax: the textbook's fill is a score like any other", "[masked_softmax][semantics]") {
    // Scores below -1e6 leave the weight to the masked keys, as in the textbook's code.
    attune::Context context;
    const std::vector<float> x{-2e6f, -3e6f, 5, 5};
    const std::int32_t length = 2;
    std::vector<float> out(4, NAN);
    MaskedSoftmaxOptions options{.valid_lens = ConstView(&length, {1}), .fill = MaskFill::seed};
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {1, 4}), View(out.data(), {1, 4}), options).ok());
    CHECK(out == std::vector<float>{0, 0, 0.5, 0.5});
    options.fill = MaskFill::zero;
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {1, 4}), View(out.data(), {1, 4}), options).ok());
    CHECK(out == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("masked_softmax: no elements are no error, and run no kernel", "[masked_softmax][semantics]") {
    attune::Context context;
    float *const nothing = nullptr;
    for (const auto &extents :
         std::initializer_list<std::initializer_list<std::int64_t>>{{0, 4}, {3, 0}, {2, 0, 4}, {0, 2, 3, 4}, {2, 2, 3, 0}}) {
        const auto status = attune::masked_softmax(context, ConstView(nothing, extents), View(nothing, extents));
        INFO(status.message());
        CHECK(status.ok());
        CHECK(context.last_variant().empty());
    }
    std::vector<float> x(4, 1.f);
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {1, 4}), View(x.data(), {1, 4})).ok());
    CHECK(context.last_variant().find("masked_softmax_f32") == 0);
}

TEST_CASE("masked_softmax: a variant is forced by option and by environment", "[masked_softmax][semantics]") {
    std::vector<float> x(4, 1.f);
    const ConstView scores(x.data(), {1, 4});
    const View out(x.data(), {1, 4});
    attune::Context context;
    REQUIRE(attune::masked_softmax(context, scores, out, {.variant = "masked_softmax_f32_generic_root"}).ok());
    CHECK(context.last_variant() == "masked_softmax_f32_generic_root");
    const auto status = attune::masked_softmax(context, scores, out, {.variant = "masked_softmax_f64_generic_root"});
    CHECK(status.code() == invalid);
    CHECK(message_defect(status.message(), "variant", {"f64", "f32"}) == "");
    Environment force("ATTUNE_FORCE_VARIANT", "masked_softmax_f32_generic_root");
    attune::Context forced;
    REQUIRE(attune::masked_softmax(forced, scores, out).ok());
    CHECK(forced.last_variant() == "masked_softmax_f32_generic_root");
}

TEST_CASE("bad input: masked_softmax", "[masked_softmax][bad_input]") {
    struct Call {
        Array<float> scores_array{std::vector<std::int64_t>{2, 3, 4, 5}}, out_array{std::vector<std::int64_t>{2, 3, 4, 5}};
        std::vector<std::int32_t> lens = std::vector<std::int32_t>(8, 5);
        ConstView scores = scores_array.view();
        View out = out_array.view();
        MaskedSoftmaxOptions options{.valid_lens = ConstView(lens.data(), {2, 4})};
    };
    attune::Context context;
    const auto refused = [&](attune::StatusCode code, const std::string &argument, const std::vector<std::string> &parts,
                             const auto &spoil) {
        Call c;
        spoil(c);
        const auto status = attune::masked_softmax(context, c.scores, c.out, c.options);
        INFO(status.message());
        CHECK(status.code() == code);
        CHECK(message_defect(status.message(), argument, parts) == "");
        CHECK(c.out_array.untouched());
    };
    refused(invalid, "scores", {"0"}, [](Call &c) { c.scores = {}; });
    refused(invalid, "scores", {"1"}, [](Call &c) { c.scores.rank = 1; });
    refused(invalid, "scores", {"5"}, [](Call &c) { c.scores.rank = 5; });
    refused(invalid, "scores", {"i32"}, [](Call &c) { c.scores.dtype = attune::DType::i32; });
    refused(invalid, "scores", {"f32 or f64", "bf16"}, [](Call &c) { c.scores.dtype = attune::DType::bf16; });
    refused(invalid, "scores", {"null"}, [](Call &c) { c.scores.data = nullptr; });
    refused(invalid, "scores", {"-2"}, [](Call &c) { c.scores.extent[0] = -2; });
    refused(invalid, "scores", {"last stride", "1", "2"}, [](Call &c) { c.scores.stride[3] = 2; });
    refused(unsupported, "scores", {"device"}, [](Call &c) { c.scores.place = attune::Place::device; });
    refused(invalid, "out", {"3", "4"}, [](Call &c) { c.out.rank = 3; });
    refused(invalid, "out", {"f64", "f32"}, [](Call &c) { c.out.dtype = attune::DType::f64; });
    refused(invalid, "out", {"null"}, [](Call &c) { c.out.data = nullptr; });
    refused(invalid, "out", {"3", "4"}, [](Call &c) { c.out.extent[2] = 3; });
    refused(invalid, "out", {"last stride", "-1"}, [](Call &c) { c.out.stride[3] = -1; });
    refused(invalid, "out", {"overlap"}, [](Call &c) { c.out.stride[1] = 0; });
    refused(invalid, "valid_lens", {"f32"}, [](Call &c) { c.options.valid_lens.dtype = attune::DType::f32; });
    refused(invalid, "valid_lens", {"3"}, [](Call &c) { c.options.valid_lens.rank = 3; });
    refused(invalid, "valid_lens", {"3", "2"}, [](Call &c) { c.options.valid_lens.extent[0] = 3; });
    refused(invalid, "valid_lens", {"3", "4"}, [](Call &c) { c.options.valid_lens.extent[1] = 3; });
    refused(invalid, "valid_lens", {"6", "5"}, [](Call &c) { c.lens[6] = 6; });
    refused(invalid, "valid_lens", {"-1"}, [](Call &c) { c.lens[0] = -1; });
    refused(invalid, "fill", {"7"}, [](Call &c) { c.options.fill = MaskFill(7); });
    refused(invalid, "variant", {"nothing"}, [](Call &c) { c.options.variant = "nothing"; });
    refused(invalid, "variant", {"sdpa"}, [](Call &c) { c.options.variant = "sdpa_f32_dany_generic_root"; });
    // Another view of the same memory is not in place.
    Call c;
    std::vector<float> x(24, 1.f);
    const auto status = attune::masked_softmax(context, ConstView(x.data(), {2, 3, 4}), View(x.data(), {2, 3, 4}, {4, 8, 1}));
    INFO(status.message());
    CHECK(status.code() == invalid);
    CHECK(message_defect(status.message(), "out", {"overlaps scores"}) == "");
}
