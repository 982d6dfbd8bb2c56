// SPDX-License-Identifier: MIT
// Bad input of additive_attention and multi_head_attention: refused by name and number; nothing is written.
#include "tests/support/additive_case.h"
#include "tests/support/multi_head_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

// A call with query widths 9 and 14, hidden 16, three queries, five keys.
struct AdditiveCall {
    AdditiveArrays<float> arrays{{.attention = {.query_heads = 4,
                                                .key_heads = 2,
                                                .queries = 3,
                                                .keys = 5,
                                                .head_dim = 9,
                                                .value_dim = 6,
                                                .key_dim = 14,
                                                .weights = attune::WeightsMode::probabilities},
                                  .b_query = true,
                                  .b_key = true}};
    ConstView query = arrays.base.query.view(), key = arrays.base.key.view(), value = arrays.base.value.view();
    View out = arrays.base.out.view();
    attune::AdditiveOptions options = arrays.options({});
    attune::Context context;
    attune::Status run() { return attune::additive_attention(context, query, key, value, out, options); }
    bool untouched() { return arrays.base.out.untouched() && arrays.base.lse.untouched() && arrays.base.weights.untouched(); }
};
struct MultiHeadCall {
    // Four heads of 8 and 6 channels; widths 24, 20, 28 and 17.
    MultiHeadArrays<float> arrays{{.attention = {.query_heads = 4,
                                                 .key_heads = 2,
                                                 .queries = 3,
                                                 .keys = 5,
                                                 .head_dim = 8,
                                                 .value_dim = 6,
                                                 .weights = attune::WeightsMode::probabilities},
                                   .query_bias = true,
                                   .key_bias = true,
                                   .value_bias = true,
                                   .out_bias = true}};
    ConstView query = arrays.query.view(), key = arrays.key_view(), value = arrays.value_view();
    View out = arrays.out.view();
    attune::MultiHeadWeights weights = arrays.weights();
    attune::MultiHeadOptions options = arrays.options();
    attune::Context context;
    attune::Status run() { return attune::multi_head_attention(context, query, key, value, weights, out, options); }
    bool untouched() { return arrays.out.untouched() && arrays.base.lse.untouched() && arrays.base.weights.untouched(); }
};

template<typename F> void additive(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<AdditiveCall>(invalid, argument, parts, f);
}
template<typename F> void multi_head(const std::string &argument, const std::vector<std::string> &parts, const F &f) {
    refuses<MultiHeadCall>(invalid, argument, parts, f);
}
using A = AdditiveCall;
using M = MultiHeadCall;
}  // namespace

TEST_CASE("bad input: projections of additive attention", "[additive][bad_input]") {
    additive("w_query", {"8", "9"}, [](A &c) { c.options.w_query = ConstView(floats.data(), {16, 8}); });
    additive("w_key", {"9", "14"}, [](A &c) { c.options.w_key = ConstView(floats.data(), {16, 9}); });
    additive("w_key", {"15", "16"}, [](A &c) { c.options.w_key = ConstView(floats.data(), {15, 14}), c.options.b_key = {}; });
    additive("w_query", {"2", "1"}, [](A &c) { c.options.w_query = ConstView(floats.data(), {16}); });
    additive("w_key", {"f64", "f32"}, [](A &c) { c.options.w_key = ConstView(doubles.data(), {16, 14}); });
    additive("w_key", {"last stride", "2"}, [](A &c) { c.options.w_key = ConstView(floats.data(), {16, 14}, {28, 2}); });
    additive("b_query", {"15", "16"}, [](A &c) { c.options.b_query = ConstView(floats.data(), {15}); });
    additive("b_key", {"1", "2"}, [](A &c) { c.options.b_key = ConstView(floats.data(), {1, 16}); });
    additive("w_score", {"17", "16"}, [](A &c) { c.options.w_score = ConstView(floats.data(), {17}); });
    additive("w_score", {"f64", "f32"}, [](A &c) { c.options.w_score = ConstView(doubles.data(), {16}); });
    additive("b_score", {"nan"}, [](A &c) { c.options.b_score = std::nan(""); });
    additive("b_score", {"inf"}, [](A &c) { c.options.b_score = std::numeric_limits<double>::infinity(); });
    additive("w_query", {"null"}, [](A &c) { c.options.w_query.data = nullptr; });
    refuses<A>(unsupported, "w_key", {"device"}, [](A &c) { c.options.w_key.place = attune::Place::device; });
    for (const attune::DType type : {attune::DType::bf16, attune::DType::f16})
        refuses<A>(unsupported, "query", {"additive attention", "f32 or f64", attune::name_of(type)},
                   [=](A &c) { c.query.dtype = c.key.dtype = c.value.dtype = c.out.dtype = type; });
}

TEST_CASE("bad input: widths of additive attention where a projection is left out", "[additive][bad_input]") {
    additive("query", {"9", "16"}, [](A &c) { c.options.w_query = {}, c.options.b_query = {}; });
    additive("key", {"14", "16"}, [](A &c) { c.options.w_key = {}, c.options.b_key = {}; });
    additive("key", {"14", "9"},
             [](A &c) { c.options.w_query = c.options.w_key = c.options.b_query = c.options.b_key = c.options.w_score = {}; });
    additive("b_query", {"w_query"}, [](A &c) {
        c.query.extent[3] = 16, c.query = ConstView(floats.data(), {2, 4, 3, 16}), c.options.w_query = {};
    });
    additive("b_key", {"w_key"}, [](A &c) { c.key = ConstView(floats.data(), {2, 2, 5, 16}), c.options.w_key = {}; });
}

TEST_CASE("bad input: what additive attention shares with sdpa", "[additive][bad_input]") {
    additive("attention.score", {}, [](A &c) { c.options.attention.score = attune::Score::cosine; });
    additive("attention.score_weight", {}, [](A &c) { c.options.attention.score_weight = ConstView(floats.data(), {9, 14}); });
    additive("key", {"3", "4"}, [](A &c) { c.key.extent[1] = c.value.extent[1] = 3, c.key.stride[1] = c.value.stride[1] = 0; });
    additive("value", {"keys", "4", "5"}, [](A &c) { c.value.extent[2] = 4; });
    additive("scale", {"nan"}, [](A &c) { c.options.attention.scale = std::nan(""); });
    additive("softcap", {"-2"}, [](A &c) { c.options.attention.softcap = -2; });
    additive("dropout", {"2"}, [](A &c) { c.options.attention.dropout.probability = 2; });
    additive("mask", {"bool", "f32"}, [](A &c) { c.options.attention.mask = ConstView(floats.data(), {3, 5}); });
    additive("weights", {"keys", "5", "4"}, [](A &c) { c.options.attention.weights.extent[3] = 4; });
    additive("variant", {"no_such_variant"}, [](A &c) { c.options.attention.variant = "no_such_variant"; });
    additive("variant", {"sdpa_f32_dany_generic_root"},
             [](A &c) { c.options.attention.variant = "sdpa_f32_dany_generic_root"; });
    additive("out", {"w_key"}, [](A &c) {
        c.options.w_key = ConstView(static_cast<const float *>(c.out.data), {16, 14}, {0, 1});
    });
    additive("weights", {"w_score"},
             [](A &c) { c.options.w_score = ConstView(static_cast<const float *>(c.options.attention.weights.data), {16}); });
}

TEST_CASE("bad input: heads of multi-head attention", "[mha][bad_input]") {
    // Document 002: d_model must be divisible by the number of heads.
    multi_head("heads", {"32", "weights.query", "7"}, [](M &c) { c.options.heads = 7; });
    multi_head("heads", {"0"}, [](M &c) { c.options.heads = 0; });
    multi_head("heads", {"-4"}, [](M &c) { c.options.heads = -4; });
    multi_head("key_heads", {"3", "4"}, [](M &c) { c.options.key_heads = 3; });
    multi_head("key_heads", {"-1"}, [](M &c) { c.options.key_heads = -1; });
    multi_head("key_heads", {"8", "4"}, [](M &c) { c.options.key_heads = 8; });
}

TEST_CASE("bad input: weights of multi-head attention", "[mha][bad_input]") {
    multi_head("weights.query", {"23", "24"}, [](M &c) { c.weights.query = ConstView(floats.data(), {32, 23}); });
    multi_head("weights.key", {"17", "16"}, [](M &c) {
        c.weights.key = ConstView(floats.data(), {17, 20}), c.weights.key_bias = {};
    });
    multi_head("weights.key", {"21", "20"}, [](M &c) { c.weights.key = ConstView(floats.data(), {16, 21}); });
    multi_head("weights.value", {"2"}, [](M &c) {
        c.weights.value = ConstView(floats.data(), {13, 28}), c.weights.value_bias = {};
    });
    multi_head("weights.out", {"24", "25"}, [](M &c) { c.weights.out = ConstView(floats.data(), {17, 25}); });
    multi_head("weights.query", {}, [](M &c) { c.weights.query = {}; });
    multi_head("weights.out", {}, [](M &c) { c.weights.out = {}; });
    multi_head("weights.value", {"f64", "f32"}, [](M &c) { c.weights.value = ConstView(doubles.data(), {12, 28}); });
    multi_head("weights.key", {"last stride", "2"}, [](M &c) { c.weights.key = ConstView(floats.data(), {16, 20}, {40, 2}); });
    multi_head("weights.query_bias", {"31", "32"}, [](M &c) { c.weights.query_bias = ConstView(floats.data(), {31}); });
    multi_head("weights.out_bias", {"18", "17"}, [](M &c) { c.weights.out_bias = ConstView(floats.data(), {18}); });
}

TEST_CASE("bad input: arrays and options of multi-head attention", "[mha][bad_input]") {
    multi_head("query", {"3", "4"}, [](M &c) { c.query.rank = 4; });
    multi_head("key", {"3", "2"}, [](M &c) { c.key.rank = 2; });
    multi_head("query", {"i32"}, [](M &c) { c.query.dtype = attune::DType::i32; });
    multi_head("key", {"bf16", "f32"}, [](M &c) { c.key.dtype = attune::DType::bf16; });
    multi_head("weights.key", {"f16", "f32"}, [](M &c) { c.weights.key.dtype = attune::DType::f16; });
    multi_head("key", {"1", "2"}, [](M &c) { c.key.extent[0] = 1; });
    multi_head("value", {"4", "5"}, [](M &c) { c.value.extent[1] = 4; });
    multi_head("out", {"16", "17"}, [](M &c) { c.out.extent[2] = 16; });
    multi_head("out", {"2", "3"}, [](M &c) { c.out.extent[1] = 2; });
    multi_head("out", {"query"}, [](M &c) { c.out.data = const_cast<void *>(c.query.data); });
    multi_head("out", {"weights.key"}, [](M &c) {
        c.weights.key = ConstView(static_cast<const float *>(c.out.data), {16, 20}, {0, 1});
    });
    multi_head("lse", {"heads", "3", "4"}, [](M &c) { c.options.attention.lse.extent[1] = 3; });
    multi_head("weights", {"queries", "2", "3"}, [](M &c) { c.options.attention.weights.extent[2] = 2; });
    multi_head("softcap", {"-2"}, [](M &c) { c.options.attention.softcap = -2; });
    multi_head("mask", {"keys", "4", "5"},
               [](M &c) { c.options.attention.mask = ConstView(reinterpret_cast<const bool *>(floats.data()), {4}); });
    multi_head("variant", {"no_such_variant"}, [](M &c) { c.options.attention.variant = "no_such_variant"; });
    const std::int32_t lens[] = {6, 1};
    multi_head("valid_lens", {"6", "5"}, [&](M &c) { c.options.attention.valid_lens = ConstView(lens, {2}); });
}
