// SPDX-License-Identifier: MIT
// Bad input of scaled_dot_product_attention_backward: refused by name and number, nothing is written, and the Context keeps
// working.
#include "tests/support/backward_grid.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::DType, attune::View;

namespace {
// A call of two entries, four query heads on two key heads, three queries, five keys, head sizes 8 and 6, with all gradients.
struct BackwardCall {
    struct Ran : SdpaBackwardArrays<float> {
        Ran()
            : SdpaBackwardArrays<float>({.forward = {.query_heads = 4,
                                                     .key_heads = 2,
                                                     .queries = 3,
                                                     .keys = 5,
                                                     .head_dim = 8,
                                                     .value_dim = 6,
                                                     .bias = "b1ij",
                                                     .alibi = Alibi::per_batch,
                                                     .sinks = true},
                                         .grad_lse = true}) {
            attune::Context context;
            REQUIRE(run_forward(context).ok());
        }
    } arrays;
    ConstView query = arrays.forward.query.view(), key = arrays.forward.key.view(), value = arrays.forward.value.view();
    attune::SdpaForward forward = arrays.results();
    attune::SdpaGradients gradients = arrays.gradients();
    attune::SdpaOptions options = arrays.options();
    attune::Context context;
    attune::Status run() {
        return attune::scaled_dot_product_attention_backward(context, query, key, value, forward, gradients, options);
    }
    bool untouched() {
        bool all = true;
        arrays.each_gradient([&](const char *, unsigned, auto &array, auto) { all = all && array.untouched(); });
        return all;
    }
};
std::string defect(BackwardCall::Ran &arrays) { return defect(arrays, ExpectedGradients<float>(arrays)); }

using B = BackwardCall;
template<typename F> void backward(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<B>(invalid, argument, parts, f);
}
// Calls f for every view of the forward pass's results, and every gradient, with its name in messages.
template<typename F> void each_result(const F &f) {
    f("forward.out", [](B &c) -> ConstView & { return c.forward.out; });
    f("forward.lse", [](B &c) -> ConstView & { return c.forward.lse; });
    f("forward.grad_out", [](B &c) -> ConstView & { return c.forward.grad_out; });
    f("forward.grad_lse", [](B &c) -> ConstView & { return c.forward.grad_lse; });
}
template<typename F> void each_gradient(const F &f) {
    f("gradients.query", [](B &c) -> View & { return c.gradients.query; });
    f("gradients.key", [](B &c) -> View & { return c.gradients.key; });
    f("gradients.value", [](B &c) -> View & { return c.gradients.value; });
    f("gradients.bias", [](B &c) -> View & { return c.gradients.bias; });
    f("gradients.alibi_slopes", [](B &c) -> View & { return c.gradients.alibi_slopes; });
    f("gradients.sinks", [](B &c) -> View & { return c.gradients.sinks; });
}
}  // namespace

TEST_CASE("bad backward: the call that the others spoil is right", "[sdpa_backward][bad_input]") {
    B call;
    const auto status = call.run();
    INFO(status.message());
    CHECK(status.ok());
    CHECK(defect(call.arrays) == "");
}

TEST_CASE("bad backward: what is wrong with one view", "[sdpa_backward][bad_input]") {
    const auto check = [](const std::string &name, auto view) {
        INFO(name);
        backward(name, {"null"}, [&](B &c) { view(c).data = nullptr; });
        backward(name, {}, [&](B &c) { view(c).rank = 5; });
        backward(name, {}, [&](B &c) { view(c).rank = -1; });
        if (name != "gradients.sinks") backward(name, {}, [&](B &c) { view(c).rank--; });  // rank 0 means not given
        backward(name, {"i32"}, [&](B &c) { view(c).dtype = DType::i32; });
        backward(name, {"f64", "f32"}, [&](B &c) { view(c).dtype = DType::f64; });
        backward(name, {"bf16", "f32"}, [&](B &c) { view(c).dtype = DType::bf16; });
        refuses<B>(unsupported, name, {"device"}, [&](B &c) { view(c).place = attune::Place::device; });
        B sizes;
        const auto &v = view(sizes);
        for (int n = 0; n < v.rank; n++) {
            const std::int64_t extent = v.extent[n];
            backward(name, {std::to_string(extent), std::to_string(extent + 1)},
                     [&](B &c) { view(c).extent[n] = extent + 1, view(c).stride[n] = n + 1 == view(c).rank; });
            backward(name, {"-2"}, [&](B &c) { view(c).extent[n] = -2; });
            if (extent > 1) refuses<B>(unsupported, name, {"2^31"}, [&](B &c) { view(c).stride[n] = std::int64_t(1) << 40; });
        }
    };
    each_result(check);
    each_gradient(check);
}

TEST_CASE("bad backward: what must be given, and what may be left out", "[sdpa_backward][bad_input]") {
    backward("forward.lse", {}, [](B &c) { c.forward.lse = {}; });
    backward("forward.grad_out", {}, [](B &c) { c.forward.grad_out = {}; });
    backward("forward.out", {}, [](B &c) { c.forward.out = {}; });
    backward("query", {}, [](B &c) { c.query = {}; });
    backward("key", {}, [](B &c) { c.key = {}; });
    backward("value", {}, [](B &c) { c.value = {}; });
    for (unsigned wanted : {0u, unsigned(want_query), unsigned(want_all)}) {
        B c;
        c.forward.grad_lse = {}, c.gradients = c.arrays.gradients(wanted);
        const auto status = c.run();
        INFO(status.message());
        CHECK(status.ok());
    }
}

TEST_CASE("bad backward: gradients of what is not given", "[sdpa_backward][bad_input]") {
    backward("gradients.bias", {"bias"}, [](B &c) { c.options.bias = {}; });
    backward("gradients.sinks", {"sinks"}, [](B &c) { c.options.sinks = {}; });
    backward("gradients.alibi_slopes", {"alibi_slopes"}, [](B &c) { c.options.alibi_slopes = {}; });
    backward("gradients.score_weight", {"score_weight"},
             [](B &c) { c.gradients.score_weight = c.gradients.query, c.gradients.query = {}; });
    // The standard slopes are one per head, whatever alibi_slopes were.
    backward("gradients.alibi_slopes", {"2", "1"}, [](B &c) { c.options.alibi = true, c.options.alibi_slopes = {}; });
}

TEST_CASE("bad backward: shapes of a bias and its gradient", "[sdpa_backward][bad_input]") {
    // A gradient does not broadcast: it has the extents of the bias.
    backward("gradients.bias", {"4", "2"}, [](B &c) { c.options.bias = ConstView(floats.data(), {3, 5}); });
    backward("gradients.bias", {"5", "1"}, [](B &c) { c.options.bias = ConstView(floats.data(), {2, 1, 3, 1}); });
    backward("gradients.bias", {"1", "4"}, [](B &c) { c.options.bias = ConstView(floats.data(), {2, 4, 3, 5}); });
}

TEST_CASE("bad backward: last strides", "[sdpa_backward][bad_input]") {
    backward("forward.out", {"last stride", "1", "2"}, [](B &c) { c.forward.out.stride[3] = 2; });
    backward("forward.grad_out", {"last stride", "1", "0"}, [](B &c) { c.forward.grad_out.stride[3] = 0; });
    backward("gradients.query", {"last stride", "1", "-1"}, [](B &c) { c.gradients.query.stride[3] = -1; });
    backward("gradients.key", {"last stride", "1", "16"}, [](B &c) { c.gradients.key.stride[3] = 16; });
    backward("gradients.value", {"last stride", "1", "3"}, [](B &c) { c.gradients.value.stride[3] = 3; });
    backward("gradients.bias", {"last stride", "1", "2"}, [](B &c) { c.gradients.bias.stride[3] = 2; });
}

TEST_CASE("bad backward: score_weight and its gradient", "[sdpa_backward][bad_input]") {
    std::vector<float> gradient(64, 7.f);
    const auto general = [&](const std::string &argument, const std::vector<std::string> &parts, const auto &spoil) {
        backward(argument, parts, [&](B &c) {
            c.options.score = attune::Score::general, c.options.score_weight = ConstView(floats.data(), {8, 8});
            c.gradients.score_weight = View(gradient.data(), {8, 8});
            spoil(c);
        });
    };
    general("score_weight", {}, [](B &c) { c.options.score_weight = {}; });
    general("score_weight", {"7", "8"}, [](B &c) { c.options.score_weight = ConstView(floats.data(), {7, 8}); });
    general("score_weight", {"9", "8"}, [](B &c) { c.options.score_weight = ConstView(floats.data(), {8, 9}); });
    general("gradients.score_weight", {"7", "8"}, [](B &c) { c.gradients.score_weight.extent[0] = 7; });
    general("gradients.score_weight", {"1", "2"}, [](B &c) { c.gradients.score_weight.rank = 1; });
    general("gradients.score_weight", {"f64", "f32"}, [](B &c) { c.gradients.score_weight.dtype = DType::f64; });
    general("gradients.score_weight", {"last stride", "2"}, [](B &c) { c.gradients.score_weight.stride[1] = 2; });
    general("gradients.score_weight", {"score_weight"},
            [](B &c) { c.gradients.score_weight.data = const_cast<float *>(floats.data()); });
    general("gradients.score_weight", {"gradients.query"},
            [](B &c) { c.gradients.score_weight.data = c.gradients.query.data; });
    CHECK(gradient == std::vector<float>(64, 7.f));
}

TEST_CASE("bad backward: gradients overlap themselves, each other or an input", "[sdpa_backward][bad_input]") {
    each_gradient([](const std::string &name, auto view) {
        INFO(name);
        backward(name, {"overlap"}, [&](B &c) { view(c).stride[0] = 0; });
        for (const char *input : {"query", "key", "value", "out", "lse", "grad_out", "grad_lse", "bias", "sinks"})
            backward(name, {input}, [&](B &c) {
                const std::string of = input;
                ConstView &other = of == "query"      ? c.query
                                   : of == "key"      ? c.key
                                   : of == "value"    ? c.value
                                   : of == "out"      ? c.forward.out
                                   : of == "lse"      ? c.forward.lse
                                   : of == "grad_out" ? c.forward.grad_out
                                   : of == "grad_lse" ? c.forward.grad_lse
                                   : of == "bias"     ? c.options.bias
                                                      : c.options.sinks;
                // Room for the whole gradient, which otherwise might reach into another input.
                other.data = floats.data();
                view(c).data = const_cast<void *>(other.data);
            });
    });
    const auto shared = [](const std::string &name, const std::string &other, auto view, auto with) {
        backward(name, {other}, [&](B &c) { view(c).data = with(c).data; });
    };
    shared(
        "gradients.key", "gradients.query", [](B &c) -> View & { return c.gradients.key; },
        [](B &c) -> View & { return c.gradients.query; });
    shared(
        "gradients.value", "gradients.key", [](B &c) -> View & { return c.gradients.value; },
        [](B &c) -> View & { return c.gradients.key; });
    shared(
        "gradients.bias", "gradients.query", [](B &c) -> View & { return c.gradients.bias; },
        [](B &c) -> View & { return c.gradients.query; });
    shared(
        "gradients.sinks", "gradients.alibi_slopes", [](B &c) -> View & { return c.gradients.sinks; },
        [](B &c) -> View & { return c.gradients.alibi_slopes; });
}

TEST_CASE("bad backward: outputs of the forward", "[sdpa_backward][bad_input]") {
    std::vector<float> buffer(2 * 4 * 3 * 5);
    backward("lse", {}, [&](B &c) { c.options.lse = View(buffer.data(), {2, 4, 3}); });
    backward("weights", {}, [&](B &c) { c.options.weights = View(buffer.data(), {2, 4, 3, 5}); });
    backward("weights", {}, [&](B &c) { c.options.average_weights = true; });
}

TEST_CASE("bad backward: the options of the forward are checked as there", "[sdpa_backward][bad_input]") {
    const std::int32_t lens[] = {6, 2};
    backward("valid_lens", {"6", "5"}, [&](B &c) { c.options.valid_lens = ConstView(lens, {2}); });
    backward("scale", {"nan"}, [](B &c) { c.options.scale = std::nan(""); });
    backward("softcap", {"-1"}, [](B &c) { c.options.softcap = -1; });
    backward("window", {"left", "-2"}, [](B &c) { c.options.window.left = -2; });
    backward("dropout", {"1.5"}, [](B &c) { c.options.dropout.probability = 1.5; });
    backward("offset", {}, [](B &c) { c.options.causal = attune::Causal::offset; });
    backward("bias", {"6"}, [](B &c) { c.options.bias = ConstView(floats.data(), {3, 6}); });
    backward("sinks", {"3", "4"}, [](B &c) { c.options.sinks = ConstView(floats.data(), {3}); });
    backward("score", {"9"}, [](B &c) { c.options.score = attune::Score(9); });
    backward("score_weight", {}, [](B &c) { c.options.score_weight = ConstView(floats.data(), {8, 8}); });
    backward("key", {"head size", "7", "8"}, [](B &c) { c.key.extent[3] = 7; });
    backward("key", {"heads", "3", "4"},
             [](B &c) { c.key.extent[1] = c.value.extent[1] = 3, c.key.stride[1] = c.value.stride[1] = 0; });
    refuses<B>(unsupported, "key", {"2^31"}, [](B &c) { c.key.stride[0] = 2147483648; });
}

TEST_CASE("bad backward: variants that are not there, of another op, type or head size, or know too little",
          "[sdpa_backward][bad_input]") {
    backward("variant", {"sdpa_backward_f32_nothing"}, [](B &c) { c.options.variant = "sdpa_backward_f32_nothing"; });
    int refused = 0;
    for (const attune::VariantInfo &v : attune::variants()) {
        const bool other_op = v.op != backward_op, other_type = v.dtype != DType::f32;
        const bool other_size = v.head_dim != 0, too_little = v.kind == "plain";
        if (v.runs_here && !other_op && !other_type && !other_size && !too_little) continue;
        if (other_op && v.op != "sdpa" && v.op != "backward_rows") continue;  // a few represent all
        B call;
        call.options.variant = v.name;
        const auto status = call.run();
        INFO(v.name << ' ' << status.message());
        CHECK(!status.ok());
        CHECK(message_defect(status.message(), "variant", {std::string(v.name)}) == "");
        CHECK(call.untouched());
        refused++;
    }
    CHECK(refused > 0);
}
