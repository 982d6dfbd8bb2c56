// SPDX-License-Identifier: MIT
// Bad input of variable_length_attention_backward: refused by name and number, and nothing is written.
#include "tests/support/packed_backward_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::DType, attune::View;

namespace {
const std::vector<float> slopes_of_sequences(12, 0.1f), sinks_of_heads(4, 0.5f);

// A call of three sequences, of 2, 0 and 3 queries and 4, 1 and 0 keys, with all gradients; three spare rows.
struct Gradients {
    PackedBackwardArrays<float> arrays{
        {.queries = {2, 0, 3}, .keys = {4, 1, 0}},
        {.alibi_slopes = ConstView(slopes_of_sequences.data(), {3, 4}), .sinks = ConstView(sinks_of_heads.data(), {4})}};
    ConstView query = arrays.forward.query.view(), key = arrays.forward.key.view(), value = arrays.forward.value.view();
    ConstView cu_q = arrays.forward.cu_seqlens_q(), cu_k = arrays.forward.cu_seqlens_k();
    attune::SdpaForward forward = arrays.results();
    attune::SdpaGradients gradients = arrays.gradients();
    attune::SdpaOptions options = arrays.options;
    attune::Context context;
    Gradients() { REQUIRE(arrays.run_forward(context).ok()); }
    attune::Status run() {
        return attune::variable_length_attention_backward(context, query, key, value, cu_q, cu_k, forward, gradients, options);
    }
    bool untouched() {
        bool all = true;
        arrays.each_gradient([&](const char *, unsigned, auto &array, std::int64_t, auto) { all = all && array.untouched(); });
        return all;
    }
};
using G = Gradients;
template<typename F> void refuses_gradients(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<G>(invalid, argument, parts, f);
}
}  // namespace

TEST_CASE("bad packed gradients: tensors and lists", "[varlen][bad_input]") {
    static const std::vector<std::int32_t> bad = {0, 2, 1, 5, 0, 99, 5, 0};
    refuses_gradients("query", {"rank", "3", "4"}, [](G &c) { c.query = {floats.data(), {1, 8, 4, 16}}; });
    refuses_gradients("key", {"rank", "3", "2"}, [](G &c) { c.key = {floats.data(), {8, 16}}; });
    refuses_gradients("key", {"heads", "3", "4"}, [](G &c) {
        c.key = {floats.data(), {8, 3, 16}}, c.value = {floats.data(), {8, 3, 16}}, c.gradients.key = c.gradients.value = {};
    });
    refuses_gradients("value", {"number of keys", "9", "8"}, [](G &c) { c.value = {floats.data(), {9, 2, 16}}; });
    refuses_gradients("value", {"f64", "f32"}, [](G &c) { c.value = {doubles.data(), {8, 2, 16}}; });
    refuses_gradients("cu_seqlens_q", {"below", "1", "2"}, [](G &c) { c.cu_q = {bad.data(), {4}}; });
    refuses_gradients("cu_seqlens_k", {"99", "8"}, [](G &c) { c.cu_k = {bad.data() + 4, {2}}, c.cu_q = {bad.data(), {2}}; });
    refuses_gradients("cu_seqlens_k", {"1", "4"}, [](G &c) { c.cu_k = {bad.data() + 7, {1}}; });
    refuses_gradients("cu_seqlens_q", {"i32", "f32"}, [](G &c) { c.cu_q = {floats.data(), {4}}; });
}

TEST_CASE("bad packed gradients: the forward pass and the gradients", "[varlen][bad_input]") {
    refuses_gradients("forward.out", {"must be given"}, [](G &c) { c.forward.out = {}; });
    refuses_gradients("forward.out", {"rank", "3", "4"}, [](G &c) { c.forward.out = {floats.data(), {1, 8, 4, 16}}; });
    refuses_gradients("forward.out", {"number of queries", "9", "8"}, [](G &c) {
        c.forward.out = {floats.data(), {9, 4, 16}};
    });
    refuses_gradients("forward.grad_out", {"must be given"}, [](G &c) { c.forward.grad_out = {}; });
    refuses_gradients("forward.grad_out", {"extent 2", "17", "16"}, [](G &c) {
        c.forward.grad_out = {floats.data(), {8, 4, 17}};
    });
    refuses_gradients("forward.lse", {"must be given"}, [](G &c) { c.forward.lse = {}; });
    refuses_gradients("forward.lse", {"rank", "2", "3"}, [](G &c) { c.forward.lse = {floats.data(), {1, 4, 8}}; });
    refuses_gradients("forward.lse", {"f32", "f64"}, [](G &c) { c.forward.lse = {doubles.data(), {4, 8}}; });
    refuses_gradients("forward.grad_lse", {"number of queries", "7", "8"}, [](G &c) {
        c.forward.grad_lse = {floats.data(), {4, 7}};
    });
    for (auto [name, member] : {std::pair("gradients.query", &attune::SdpaGradients::query),
                                {"gradients.key", &attune::SdpaGradients::key},
                                {"gradients.value", &attune::SdpaGradients::value}}) {
        refuses_gradients(name, {"rank", "3", "2"}, [member](G &c) { (c.gradients.*member).rank = 2; });
        refuses_gradients(name, {"extent 2", "15", "16"}, [member](G &c) { (c.gradients.*member).extent[2] = 15; });
        refuses_gradients(name, {"f64", "f32"}, [member](G &c) { (c.gradients.*member).dtype = DType::f64; });
        refuses_gradients(name, {"overlaps"}, [member](G &c) {
            (c.gradients.*member).data = const_cast<void *>(c.value.data), (c.gradients.*member).capacity = -1;
        });
    }
    refuses_gradients("gradients.alibi_slopes", {"rank", "1", "2"}, [](G &c) { c.gradients.alibi_slopes.rank = 1; });
    refuses_gradients("gradients.alibi_slopes", {"extent 0", "2", "3"}, [](G &c) { c.gradients.alibi_slopes.extent[0] = 2; });
    refuses_gradients("gradients.alibi_slopes", {"without"}, [](G &c) { c.options.alibi_slopes = {}; });
    refuses_gradients("gradients.sinks", {"without"}, [](G &c) { c.options.sinks = {}; });
    refuses_gradients("gradients.sinks", {"extent 0", "3", "4"}, [](G &c) { c.gradients.sinks.extent[0] = 3; });
    refuses_gradients("gradients.bias", {"without"}, [](G &c) { c.gradients.bias = c.gradients.query; });
    refuses_gradients("gradients.score_weight", {"without"}, [](G &c) { c.gradients.score_weight = c.gradients.query; });
}

TEST_CASE("bad packed gradients: options", "[varlen][bad_input]") {
    static const std::vector<std::int32_t> zeros(16, 0);
    refuses_gradients("lse", {"forward.lse"}, [](G &c) { c.options.lse = c.arrays.forward.lse.view(); });
    refuses_gradients("bias", {"packed"}, [](G &c) { c.options.bias = {floats.data(), {1, 1}}; });
    refuses_gradients("weights", {"packed"}, [](G &c) { c.options.weights = c.gradients.query; });
    refuses_gradients("score", {"packed"}, [](G &c) { c.options.score = attune::Score::general; });
    refuses_gradients("valid_lens", {"packed"}, [](G &c) { c.options.valid_lens = {zeros.data(), {3}}; });
    refuses_gradients("offsets", {"2", "3"}, [](G &c) { c.options.offsets = {zeros.data(), {2}}; });
    refuses_gradients("alibi_slopes", {"2", "3"}, [](G &c) { c.options.alibi_slopes = {floats.data(), {2, 4}}; });
    refuses_gradients("softcap", {"-1"}, [](G &c) { c.options.softcap = -1; });
    refuses_gradients("variant", {"no_such"}, [](G &c) { c.options.variant = "no_such"; });
}
