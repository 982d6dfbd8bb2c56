// SPDX-License-Identifier: MIT
// linear_backward through the dispatcher: the central differences of linear, each subset of the gradients, views, and bad
// input.
#include "tests/support/central_differences.h"
#include "tests/support/linear_backward_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

TEST_CASE("linear_backward: central differences by every input", "[linear_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (const std::vector<std::int64_t> &leading : {std::vector<std::int64_t>{}, {1}, {7}, {3, 5}, {2, 3, 3}})
        for (const auto &[columns, depth] : {std::pair(1, 1), {5, 3}, {3, 11}}) {
            LinearBackwardArrays<double> a({.leading = leading, .columns = columns, .depth = depth, .seed = seed});
            a.layer.c.order = Order(seed++ % 4);
            INFO(describe(a.layer.c));
            REQUIRE(a.run(context).ok());
            const auto loss = [&] {
                if (!a.layer.run(context).ok()) return std::nan("");
                const auto out = a.layer.out.values(), by = a.grad_out.values();
                long double sum = 0;
                for (std::size_t n = 0; n < out.size(); n++) sum += static_cast<long double>(out[n]) * by[n];
                return double(sum);
            };
            std::mt19937 random(seed);
            for (const DifferencedInput &input : {differenced("x", a.layer.x, a.grad_x.values(), loss),
                                                  differenced("weight", a.layer.weight, a.grad_weight.values(), loss),
                                                  differenced("bias", a.layer.bias, a.grad_bias.values(), loss)})
                CHECK(difference_defect(input, input.count, random) == "");
        }
}

TEST_CASE("linear_backward: every rank, every type", "[linear_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (const std::vector<std::int64_t> &leading :
         {std::vector<std::int64_t>{}, {1}, {300}, {2, 40}, {64, 1}, {3, 2, 5}, {1, 1, 1}})
        for (const auto &[columns, depth] : {std::pair(1, 1), {3, 18}, {100, 100}, {64, 513}}) {
            LinearCase c{.leading = leading, .columns = columns, .depth = depth, .seed = seed};
            c.order = Order(seed++ % 4);
            check_backward<float>(context, c);
            check_backward<double>(context, c);
            check_backward<BFloat16>(context, c);
            check_backward<Float16>(context, c);
        }
}

TEST_CASE("linear_backward: work for several threads", "[linear_backward][semantics]") {
    attune::Context context;
    check_backward<float>(context, {.leading = {3, 223}, .columns = 200, .depth = 161, .order = Order::padded});
    check_backward<double>(context, {.leading = {3, 130}, .columns = 101, .depth = 157, .order = Order::swapped});
}

TEST_CASE("linear_backward: each subset of the gradients has the bits of all, over any threads", "[linear_backward][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for (const auto &[columns, depth] : {std::pair(130, 70), {3, 300}, {64, 64}}) {
        const LinearCase c{.leading = {2, 150}, .columns = columns, .depth = depth};
        LinearBackwardArrays<float> all(c);
        REQUIRE(all.run(one).ok());
        for (attune::Context *context : {&one, &two, &three, &seven})
            for (unsigned wanted = 0; wanted <= want_layer; wanted++) {
                LinearBackwardArrays<float> some(c);
                INFO(describe(c) << " threads " << context->threads() << " wanted " << wanted);
                const auto status =
                    attune::linear_backward(*context, wanted & want_weight ? ConstView(some.layer.x.view()) : ConstView(),
                                            wanted & want_x ? ConstView(some.layer.weight.view()) : ConstView(),
                                            some.grad_out.view(), some.gradients(wanted));
                INFO(status.message());
                REQUIRE(status.ok());
                CHECK((wanted & want_x ? same_bits(some.grad_x.values(), all.grad_x.values()) : some.grad_x.untouched()));
                CHECK((wanted & want_weight ? same_bits(some.grad_weight.values(), all.grad_weight.values())
                                            : some.grad_weight.untouched()));
                CHECK((wanted & want_bias_sum ? same_bits(some.grad_bias.values(), all.grad_bias.values())
                                              : some.grad_bias.untouched()));
            }
    }
}

TEST_CASE("linear_backward: one row of x for all by stride 0", "[linear_backward][semantics]") {
    attune::Context context;
    LinearBackwardArrays<float> a({.leading = {3, 4}, .columns = 6, .depth = 8});
    View x = a.layer.x.view();
    x.stride[0] = 0;
    REQUIRE(attune::linear_backward(context, x, {}, a.grad_out.view(), a.gradients(want_weight)).ok());
    CHECK(judge(linear_backward_reference<double, float>(x, {}, a.grad_out.view()).weight,
                linear_backward_reference<float, float>(x, {}, a.grad_out.view()).weight, a.grad_weight.values())
              .right);
}

TEST_CASE("linear_backward: no rows", "[linear_backward][semantics]") {
    attune::Context context;
    for (const std::vector<std::int64_t> &leading : {std::vector<std::int64_t>{0}, {2, 0}, {0, 3}}) {
        LinearBackwardArrays<float> a({.leading = leading, .columns = 3, .depth = 4});
        REQUIRE(a.run(context).ok());
        CHECK(a.grad_weight.values() == std::vector<float>(12, 0.f));
        CHECK(a.grad_bias.values() == std::vector<float>(3, 0.f));
        CHECK(a.grad_x.untouched());
        CHECK(context.last_variant() == "");
    }
}

TEST_CASE("linear_backward: which variant ran, and one that is forced", "[linear_backward][runtime]") {
    attune::Context context;
    LinearBackwardArrays<float> a({.leading = {3}});
    REQUIRE(a.run(context).ok());
    CHECK(context.last_variant().rfind("transposed_dot_f32_", 0) == 0);
    REQUIRE(a.run(context, {}, want_x).ok());
    CHECK(context.last_variant().rfind("batch_dot_f32_", 0) == 0);
    for (const char *name : {"transposed_dot_f32_generic_root", "batch_dot_f32_generic_root"}) {
        REQUIRE(a.run(context, name).ok());
        CHECK(context.last_variant() == name);
        CHECK(defect(a) == "");
    }
    for (const auto &[wrong, wanted] : {std::pair("transposed_dot_f64_generic_root", want_layer),
                                        {"sdpa_f32_dany_generic_root", want_layer},
                                        {"x", want_layer},
                                        {"transposed_dot_f32_generic_root", want_x},
                                        {"batch_dot_f32_generic_root", want_weight}}) {
        LinearBackwardArrays<float> untouched(a.layer.c);
        const auto status = untouched.run(context, wrong, wanted);
        CHECK(status.code() == invalid);
        CHECK(message_defect(status.message(), "variant", {wrong}) == "");
        CHECK(untouched.untouched());
    }
}

namespace {
// A legal call whose parts a test spoils: x (2, 3, 5), weight (4, 5), grad_out (2, 3, 4).
struct SpoiledLayer {
    LinearBackwardArrays<float> arrays{{.leading = {2, 3}, .columns = 4, .depth = 5}};
    ConstView x = arrays.layer.x.view(), weight = arrays.layer.weight.view(), grad_out = arrays.grad_out.view();
    attune::LinearGradients gradients = arrays.gradients();
    attune::Context context;
    attune::Status run() { return attune::linear_backward(context, x, weight, grad_out, gradients); }
    bool untouched() { return arrays.untouched(); }
};
using L = SpoiledLayer;
}  // namespace

TEST_CASE("bad input: linear_backward", "[linear_backward][bad_input]") {
    const auto wrong = [](const std::string &argument, const std::vector<std::string> &parts, const auto &f) {
        refuses<L>(invalid, argument, parts, f);
    };
    wrong("grad_out", {"1", "4", "0"}, [](L &c) { c.grad_out = {}; });
    wrong("grad_out", {"1", "4", "5"}, [](L &c) { c.grad_out.rank = 5; });
    wrong("grad_out", {"f32, f64, bf16 or f16", "i32"}, [](L &c) { c.grad_out.dtype = attune::DType::i32; });
    wrong("grad_out", {"null"}, [](L &c) { c.grad_out.data = nullptr; });
    wrong("grad_out", {"last stride", "2"}, [](L &c) { c.grad_out.stride[2] = 2; });
    wrong("grad_out", {"at least 1", "0"}, [](L &c) { c.grad_out.extent[2] = 0; });
    wrong("x", {"must be given", "gradients.weight"}, [](L &c) { c.x = {}; });
    wrong("weight", {"must be given", "gradients.x"}, [](L &c) { c.weight = {}; });
    wrong("x", {"3", "grad_out", "2"}, [](L &c) { c.x.rank = 2; });
    wrong("x", {"f64", "f32"}, [](L &c) { c.x.dtype = attune::DType::f64; });
    wrong("x", {"extent 0", "3", "2"}, [](L &c) { c.x.extent[0] = 3, c.x.stride[0] = 0; });
    wrong("x", {"null"}, [](L &c) { c.x.data = nullptr; });
    wrong("weight", {"2", "3"}, [](L &c) { c.weight.rank = 3; });
    wrong("weight", {"first extent", "3", "4"}, [](L &c) { c.weight.extent[0] = 3; });
    wrong("weight", {"width", "6", "5"}, [](L &c) { c.weight.extent[1] = 6; });
    wrong("weight", {"last stride", "-1"}, [](L &c) { c.weight.stride[1] = -1; });
    wrong("gradients.x", {"3", "2"}, [](L &c) { c.gradients.x.rank = 2; });
    wrong("gradients.x", {"extent 1", "2", "3"}, [](L &c) { c.gradients.x.extent[1] = 2; });
    wrong("gradients.x", {"width", "4", "5"}, [](L &c) { c.gradients.x.extent[2] = 4; });
    wrong("gradients.weight", {"f64", "f32"}, [](L &c) { c.gradients.weight.dtype = attune::DType::f64; });
    wrong("gradients.weight", {"first extent", "3", "4"}, [](L &c) { c.gradients.weight.extent[0] = 3; });
    wrong("gradients.weight", {"width", "4", "5"}, [](L &c) { c.gradients.weight.extent[1] = 4; });
    wrong("gradients.weight", {"overlap"}, [](L &c) { c.gradients.weight.stride[0] = 4; });
    wrong("gradients.bias", {"1", "2"}, [](L &c) { c.gradients.bias.rank = 2, c.gradients.bias.extent[1] = 1; });
    wrong("gradients.bias", {"first extent", "5", "4"}, [](L &c) { c.gradients.bias.extent[0] = 5; });
    wrong("gradients.bias", {"last stride", "2"}, [](L &c) { c.gradients.bias.stride[0] = 2; });
    wrong("gradients.x", {"overlaps grad_out"}, [](L &c) { c.grad_out.data = c.gradients.x.data; });
    wrong("gradients.x", {"overlaps x"}, [](L &c) { c.x.data = c.gradients.x.data; });
    wrong("gradients.weight", {"overlaps weight"}, [](L &c) { c.weight.data = c.gradients.weight.data; });
    wrong("gradients.weight", {"overlaps gradients.x"}, [](L &c) { c.gradients.weight.data = c.gradients.x.data; });
    refuses<L>(unsupported, "grad_out", {"device"}, [](L &c) { c.grad_out.place = attune::Place::device; });
    refuses<L>(unsupported, "x", {"2^31"}, [](L &c) { c.x.stride[0] = std::int64_t(1) << 31; });
}
