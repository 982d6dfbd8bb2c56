// SPDX-License-Identifier: MIT
// Bad input of additive_attention_backward: refused by name and number, nothing is written, and the Context keeps working.
#include "tests/support/additive_backward_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::DType, attune::View;

namespace {
// A case of two entries, four query heads on two key heads, three queries, five keys, 7 hidden channels, with every gradient.
AdditiveBackwardCase whole_case() {
    AdditiveBackwardCase c;
    c.forward.attention = {.query_heads = 4, .key_heads = 2, .queries = 3, .keys = 5, .head_dim = 8, .value_dim = 6};
    c.forward.attention.key_dim = 9, c.forward.attention.bias = "b1ij", c.forward.attention.alibi = Alibi::per_batch;
    c.forward.attention.sinks = true;
    c.forward.hidden = 7, c.forward.b_query = c.forward.b_key = c.grad_lse = true;
    return c;
}
struct AdditiveBackwardCall {
    struct Ran : AdditiveBackwardArrays<float> {
        Ran() : AdditiveBackwardArrays<float>(whole_case()) {
            attune::Context context;
            REQUIRE(run_forward(context).ok());
        }
    } arrays;
    ConstView query = arrays.forward.base.query.view(), key = arrays.forward.base.key.view(),
              value = arrays.forward.base.value.view();
    attune::SdpaForward forward = arrays.results();
    attune::AdditiveGradients gradients = arrays.gradients();
    attune::AdditiveOptions options = arrays.options();
    attune::Context context;
    attune::Status run() {
        return attune::additive_attention_backward(context, query, key, value, forward, gradients, options);
    }
    bool untouched() {
        bool all = true;
        arrays.each_gradient([&](const char *, auto &array, auto) { all = all && array.untouched(); });
        return all;
    }
};
std::string defect(AdditiveBackwardCall::Ran &arrays) { return defect(static_cast<AdditiveBackwardArrays<float> &>(arrays)); }

using A = AdditiveBackwardCall;
template<typename F> void additive_backward(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<A>(invalid, argument, parts, f);
}
template<typename F> void each_additive_gradient(const F &f) {
    A names;
    names.arrays.each_gradient([&](const std::string &name, auto &, auto member) {
        f("gradients." + name, [member](A &c) -> View & { return member(c.gradients); });
    });
}
}  // namespace

TEST_CASE("bad additive backward: the call that the others spoil is right", "[additive_backward][bad_input]") {
    A call;
    const auto status = call.run();
    INFO(status.message());
    CHECK(status.ok());
    CHECK(defect(call.arrays) == "");
}

TEST_CASE("bad additive backward: what is wrong with one gradient", "[additive_backward][bad_input]") {
    each_additive_gradient([](const std::string &name, auto view) {
        INFO(name);
        additive_backward(name, {"null"}, [&](A &c) { view(c).data = nullptr; });
        additive_backward(name, {}, [&](A &c) { view(c).rank = 5; });
        additive_backward(name, {"i32"}, [&](A &c) { view(c).dtype = DType::i32; });
        additive_backward(name, {"f64", "f32"}, [&](A &c) { view(c).dtype = DType::f64; });
        refuses<A>(unsupported, name, {"device"}, [&](A &c) { view(c).place = attune::Place::device; });
        A sizes;
        const std::int64_t extent = view(sizes).extent[view(sizes).rank - 1];
        additive_backward(name, {std::to_string(extent), std::to_string(extent + 1)},
                          [&](A &c) { view(c).extent[view(c).rank - 1]++; });
        additive_backward(name, {"overlap"}, [&](A &c) { view(c).data = const_cast<void *>(c.query.data); });
    });
}

TEST_CASE("bad additive backward: gradients of what is not given", "[additive_backward][bad_input]") {
    additive_backward("gradients.w_score", {"w_score"}, [](A &c) { c.options.w_score = {}; });
    additive_backward("gradients.b_query", {"b_query"}, [](A &c) { c.options.b_query = {}; });
    additive_backward("gradients.b_key", {"b_key"}, [](A &c) { c.options.b_key = {}; });
    additive_backward("gradients.bias", {"bias"}, [](A &c) { c.options.attention.bias = {}; });
    additive_backward("gradients.sinks", {"sinks"}, [](A &c) { c.options.attention.sinks = {}; });
    additive_backward("b_query", {"w_query"}, [](A &c) { c.options.w_query = {}; });
}

TEST_CASE("bad additive backward: what must be given, and options", "[additive_backward][bad_input]") {
    std::vector<float> buffer(200);
    additive_backward("forward.lse", {}, [](A &c) { c.forward.lse = {}; });
    additive_backward("forward.grad_out", {}, [](A &c) { c.forward.grad_out = {}; });
    additive_backward("lse", {}, [&](A &c) { c.options.attention.lse = View(buffer.data(), {2, 4, 3}); });
    additive_backward("weights", {}, [&](A &c) { c.options.attention.weights = View(buffer.data(), {2, 4, 3, 5}); });
    additive_backward("attention.score", {}, [](A &c) { c.options.attention.score = attune::Score::cosine; });
    additive_backward("b_score", {"nan"}, [](A &c) { c.options.b_score = std::nan(""); });
    additive_backward("w_score", {"7", "8"}, [](A &c) { c.options.w_score.extent[0] = 8; });
    additive_backward("w_key", {"6", "7"}, [](A &c) { c.options.w_key.extent[0] = 6, c.options.b_key.extent[0] = 6; });
    additive_backward("variant", {"sdpa_backward"},
                      [](A &c) { c.options.attention.variant = "sdpa_backward_f32_dany_zen4_blocked_plain"; });
    refuses<A>(unsupported, "query", {"bf16"}, [](A &c) { c.query.dtype = DType::bf16; });
    for (unsigned wanted : {0u, 1u, 0x88u}) {
        A c;
        c.forward.grad_lse = {}, c.gradients = c.arrays.gradients(wanted);
        CHECK(c.run().ok());
    }
}
