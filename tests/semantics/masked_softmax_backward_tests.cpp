// SPDX-License-Identifier: MIT
// masked_softmax_backward through the dispatcher: the central differences of masked_softmax, ranks, and bad input.
#include "tests/support/central_differences.h"
#include "tests/support/masked_softmax_backward_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::MaskFill, attune::View;

TEST_CASE("masked_softmax_backward: central differences", "[masked_softmax_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (std::int64_t keys : {1, 2, 7, 37})
        for (Lengths lengths : {Lengths::none, Lengths::per_batch, Lengths::per_query})
            for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                for (double middle : {0.0, -1e6}) {
                    SoftmaxBackwardArrays<double> a(
                        {.queries = 3, .keys = keys, .lengths = lengths, .fill = fill, .spread = 2, .seed = seed++});
                    // Around -1e6, kept scores share the row with those set to -1e6. Masked ones may be any numbers, but not
                    // NaN here.
                    a.forward.scores.each([&](double &x) { x = std::isnan(x) ? 0.5 : x + middle; });
                    a.grad_out.each([&](double &x) { x = std::isnan(x) ? -0.75 : x; });
                    const auto forward = [&] {
                        return attune::masked_softmax(context, a.forward.scores.view(), a.forward.out.view(),
                                                      a.forward.options({}));
                    };
                    REQUIRE(forward().ok());
                    REQUIRE(a.run(context).ok());
                    const auto loss = [&] {
                        if (!forward().ok()) return std::nan("");
                        const auto out = a.forward.out.values(), by = a.grad_out.values();
                        double sum = 0;
                        for (std::size_t n = 0; n < out.size(); n++) sum += out[n] * by[n];
                        return sum;
                    };
                    INFO(a.forward.c << " middle " << middle);
                    std::mt19937 random(seed);
                    CHECK(difference_defect(differenced("scores", a.forward.scores, a.grad_scores.values(), loss), 60,
                                            random) == "");
                }
}

TEST_CASE("masked_softmax_backward: rank 2, 3 and 4 are the same rows", "[masked_softmax_backward][semantics]") {
    attune::Context context({.threads = 2});
    SoftmaxBackwardArrays<float> a({.batch = 6, .heads = 1, .queries = 1, .keys = 10, .lengths = Lengths::per_query});
    const std::vector<std::int32_t> lens = a.forward.lens.values();
    const auto run = [&](std::initializer_list<std::int64_t> extents, const ConstView &lengths) {
        std::vector<float> grad(60, NAN);
        const auto status = attune::masked_softmax_backward(context, ConstView(a.forward.out.data(), extents),
                                                            ConstView(a.grad_out.data(), extents), View(grad.data(), extents),
                                                            {.valid_lens = lengths});
        INFO(status.message());
        REQUIRE(status.ok());
        return grad;
    };
    const auto rows = run({6, 10}, ConstView(lens.data(), {6}));
    CHECK(same_bits(rows, run({6, 10}, ConstView(lens.data(), {6, 1}))));
    CHECK(same_bits(rows, run({2, 3, 10}, ConstView(lens.data(), {2, 3}))));
    CHECK(same_bits(rows, run({2, 1, 3, 10}, ConstView(lens.data(), {2, 3}))));
    CHECK(same_bits(rows, run({6, 1, 1, 10}, ConstView(lens.data(), {6}))));
    CHECK(same_bits(rows, run({6, 10}, {})));  // with MaskFill::zero the weights show the mask
}

TEST_CASE("masked_softmax_backward: rows without keys, and no rows", "[masked_softmax_backward][semantics]") {
    attune::Context context;
    const std::vector<float> uniform(4, 0.25f), none(4, 0.f), grad{1, 2, 3, 4};
    const std::int32_t length = 0;
    for (MaskFill fill : {MaskFill::zero, MaskFill::seed}) {
        std::vector<float> result(4, NAN);
        const auto &out = fill == MaskFill::seed ? uniform : none;
        REQUIRE(attune::masked_softmax_backward(context, ConstView(out.data(), {1, 4}), ConstView(grad.data(), {1, 4}),
                                                View(result.data(), {1, 4}),
                                                {.valid_lens = ConstView(&length, {1}), .fill = fill})
                    .ok());
        CHECK(result == none);
    }
    REQUIRE(attune::masked_softmax_backward(context, ConstView(uniform.data(), {0, 4}), ConstView(grad.data(), {0, 4}),
                                            View(const_cast<float *>(none.data()), {0, 4}))
                .ok());
    CHECK(context.last_variant() == "");
}

namespace {
struct SpoiledSoftmax {
    SoftmaxBackwardArrays<float> arrays{{.batch = 2, .heads = 3, .queries = 4, .keys = 5}};
    ConstView out = arrays.forward.out.view(), grad_out = arrays.grad_out.view();
    View grad_scores = arrays.grad_scores.view();
    attune::MaskedSoftmaxOptions options = arrays.forward.options({});
    attune::Context context;
    attune::Status run() { return attune::masked_softmax_backward(context, out, grad_out, grad_scores, options); }
    bool untouched() { return arrays.grad_scores.untouched(); }
};
using S = SpoiledSoftmax;
}  // namespace

TEST_CASE("bad input: masked_softmax_backward", "[masked_softmax_backward][bad_input]") {
    const auto wrong = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refuses<S>(invalid, argument, parts, f);
    };
    wrong("out", {"2", "4", "1"}, [](S &c) { c.out.rank = 1; });
    wrong("out", {"f32 or f64", "bf16"}, [](S &c) { c.out.dtype = attune::DType::bf16; });
    wrong("out", {"last stride", "2"}, [](S &c) { c.out.stride[3] = 2; });
    wrong("out", {"null"}, [](S &c) { c.out.data = nullptr; });
    wrong("grad_out", {"3", "4"}, [](S &c) { c.grad_out.rank = 3; });
    wrong("grad_out", {"f64", "f32"}, [](S &c) { c.grad_out.dtype = attune::DType::f64; });
    wrong("grad_out", {"extent 3", "4", "5"}, [](S &c) { c.grad_out.extent[3] = 4; });
    wrong("grad_scores", {"extent 1", "2", "3"}, [](S &c) { c.grad_scores.extent[1] = 2; });
    wrong("grad_scores", {"last stride", "-1"}, [](S &c) { c.grad_scores.stride[3] = -1; });
    wrong("grad_scores", {"overlap"}, [](S &c) { c.grad_scores.stride[0] = 0; });
    wrong("grad_scores", {"overlaps out"}, [](S &c) { c.out.data = static_cast<float *>(c.grad_scores.data) + 1; });
    wrong("grad_scores", {"overlaps grad_out"}, [](S &c) { c.grad_out.data = static_cast<float *>(c.grad_scores.data) + 1; });
    wrong("fill", {"0", "1", "2"}, [](S &c) { c.options.fill = MaskFill(2); });
    wrong("valid_lens", {"i32", "f32"}, [](S &c) { c.options.valid_lens.dtype = attune::DType::f32; });
    wrong("valid_lens", {"3", "out", "2"}, [](S &c) { c.options.valid_lens.extent[0] = 3; });
    wrong("valid_lens", {"6", "0", "5"}, [](S &c) { c.arrays.forward.lens.data()[3] = 6; });
    wrong("variant", {"masked_softmax_f32_generic_root"}, [](S &c) { c.options.variant = "masked_softmax_f32_generic_root"; });
    refuses<S>(unsupported, "grad_out", {"device"}, [](S &c) { c.grad_out.place = attune::Place::device; });
}
