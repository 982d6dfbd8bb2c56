// SPDX-License-Identifier: MIT
// Refusals of multi_head_attention_backward: one message each, with nothing written.
#include "tests/support/multi_head_backward_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::DType, attune::View;

namespace {
// A call of two entries, four heads on two key heads, three queries, five keys, with every gradient.
struct SpoiledHeads {
    MultiHeadBackwardArrays<float> arrays{{.attention = {.query_heads = 4,
                                                         .key_heads = 2,
                                                         .queries = 3,
                                                         .keys = 5,
                                                         .head_dim = 8,
                                                         .value_dim = 6,
                                                         .bias = "hij",
                                                         .alibi = Alibi::per_head,
                                                         .sinks = true},
                                           .query_bias = true,
                                           .key_bias = true,
                                           .value_bias = true,
                                           .out_bias = true}};
    ConstView query = arrays.layer.query.view(), key = arrays.layer.key.view(), value = arrays.layer.value.view(),
              grad_out = arrays.grad_out.view();
    attune::MultiHeadWeights weights = arrays.layer.weights();
    attune::MultiHeadGradients gradients = arrays.gradients();
    attune::MultiHeadOptions options = arrays.options();
    attune::Context context;
    attune::Status run() {
        return attune::multi_head_attention_backward(context, query, key, value, weights, grad_out, gradients, options);
    }
    bool untouched() { return arrays.untouched(); }
};
using S = SpoiledHeads;

template<typename F> void wrong(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<S>(invalid, argument, parts, f);
}
}  // namespace

TEST_CASE("bad multi-head backward: tensors, weights and heads", "[mha_backward][bad_input]") {
    wrong("query", {"3", "2"}, [](S &c) { c.query.rank = 2; });
    wrong("key", {"f64", "f32"}, [](S &c) { c.key.dtype = DType::f64; });
    wrong("value", {"keys", "4", "5"}, [](S &c) { c.value.extent[1] = 4; });
    wrong("weights.query", {"width", "23", "24"}, [](S &c) { c.weights.query.extent[1] = 23; });
    wrong("weights.key", {"15", "16"}, [](S &c) { c.weights.key.extent[0] = 15, c.weights.key_bias = {}; });
    wrong("weights.out", {"2", "1"}, [](S &c) { c.weights.out.rank = 1; });
    wrong("heads", {"32", "5"}, [](S &c) { c.options.heads = 5; });
    wrong("key_heads", {"3", "4"}, [](S &c) { c.options.key_heads = 3; });
    wrong("grad_out", {"3", "0"}, [](S &c) { c.grad_out = {}; });
    wrong("grad_out", {"queries", "2", "3"}, [](S &c) { c.grad_out.extent[1] = 2; });
    wrong("grad_out", {"width", "16", "17"}, [](S &c) { c.grad_out.extent[2] = 16; });
    wrong("grad_out", {"null"}, [](S &c) { c.grad_out.data = nullptr; });
}

TEST_CASE("bad multi-head backward: gradients", "[mha_backward][bad_input]") {
    wrong("gradients.query", {"extent 1", "2", "3"}, [](S &c) { c.gradients.query.extent[1] = 2; });
    wrong("gradients.key", {"2", "3"}, [](S &c) { c.gradients.key.rank = 2; });
    wrong("gradients.value", {"f64", "f32"}, [](S &c) { c.gradients.value.dtype = DType::f64; });
    wrong("gradients.weights.key", {"extent 0", "15", "16"}, [](S &c) { c.gradients.weights.key.extent[0] = 15; });
    wrong("gradients.weights.out", {"last stride", "2"}, [](S &c) { c.gradients.weights.out.stride[1] = 2; });
    wrong("gradients.weights.out_bias", {"extent 0", "16", "17"}, [](S &c) { c.gradients.weights.out_bias.extent[0] = 16; });
    wrong("gradients.weights.key_bias", {"weights.key_bias"}, [](S &c) { c.weights.key_bias = {}; });
    wrong("gradients.attention.query", {"gradients.query"},
          [](S &c) { c.gradients.attention.query = c.gradients.query, c.gradients.query = {}; });
    wrong("gradients.attention.sinks", {"sinks"}, [](S &c) { c.options.attention.sinks = {}; });
    wrong("gradients.attention.bias", {"extent 2", "4", "5"}, [](S &c) { c.gradients.attention.bias.extent[2] = 4; });
    wrong("gradients.attention.score_weight", {"score_weight"},
          [](S &c) { c.gradients.attention.score_weight = c.gradients.weights.query, c.gradients.weights.query = {}; });
    wrong("gradients.query", {"overlaps grad_out"}, [](S &c) { c.grad_out.data = c.gradients.query.data; });
    wrong("gradients.key", {"overlaps gradients.query"}, [](S &c) { c.gradients.key.data = c.gradients.query.data; });
    wrong("gradients.weights.value", {"overlaps weights.value"},
          [](S &c) { c.weights.value.data = c.gradients.weights.value.data; });
    wrong("gradients.attention.bias", {"overlaps bias"},
          [](S &c) { c.options.attention.bias.data = c.gradients.attention.bias.data; });
    wrong("gradients.weights.query", {"overlap"}, [](S &c) { c.gradients.weights.query.stride[0] = 23; });
}

TEST_CASE("bad multi-head backward: options", "[mha_backward][bad_input]") {
    wrong("lse", {"no output"}, [](S &c) { c.options.attention.lse = c.arrays.layer.base.lse.view(); });
    wrong("weights", {"no output"}, [](S &c) { c.options.attention.average_weights = true; });
    wrong("softcap", {"-1"}, [](S &c) { c.options.attention.softcap = -1; });
    wrong("dropout", {"2"}, [](S &c) { c.options.attention.dropout.probability = 2; });
    wrong("bias", {"queries", "2"}, [](S &c) { c.options.attention.bias.extent[1] = 2; });
    wrong("sinks", {"heads", "3", "4"}, [](S &c) { c.options.attention.sinks.extent[0] = 3; });
    wrong("variant", {"sdpa_f32_dany_generic_root"}, [](S &c) { c.options.attention.variant = "sdpa_f32_dany_generic_root"; });
    wrong("score_weight", {}, [](S &c) { c.options.attention.score = attune::Score::general; });
    refuses<S>(unsupported, "grad_out", {"device"}, [](S &c) { c.grad_out.place = attune::Place::device; });
}
