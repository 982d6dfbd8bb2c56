// SPDX-License-Identifier: MIT
// Gradients of attention and of layers.
#include "options.h"

namespace attune_python {

const Keywords &layer_head_keywords();
const Keywords &layer_bias_keywords();

namespace {

using attune::ConstView;
using attune::Context;
using attune::SdpaOptions;

// Results of the forward pass, and the gradients by them.
attune::SdpaForward forward_of(Call &call, nb::handle out, nb::handle lse, nb::handle grad_out, const GradLse &of_lse) {
    return {call.input("out", out), call.input("lse", lse), call.input("grad_out", grad_out), of_lse.grad_lse};
}

template<typename Given>
void add_inputs(Gradients &gradients, nb::handle like, const ConstView &query, const ConstView &key, const ConstView &value,
                Given &into) {
    gradients.add("query", like, query, into.query), gradients.add("key", like, key, into.key);
    gradients.add("value", like, value, into.value);
}

// Gradients of the tensors that the score reads: bias, slopes and sinks.
template<typename Given>
void add_score(Gradients &gradients, nb::handle like, const SdpaOptions &options, const ConstView &query, Given &into) {
    gradients.add("bias", like, options.bias, into.bias);
    if (options.alibi_slopes.given())
        gradients.add("alibi_slopes", like, options.alibi_slopes, into.alibi_slopes);
    else if (options.alibi)
        gradients.add("alibi_slopes", like, attune::DType::f32, {query.rank == 4 ? query.extent[1] : 1}, into.alibi_slopes);
    gradients.add("sinks", like, options.sinks, into.sinks);
}

nb::object sdpa_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle lse,
                         nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    SdpaOptions options;
    Wanted wanted;
    GradLse of_lse;
    read_keywords(call, "scaled_dot_product_attention_backward", given_options,
                  {{attention_keywords(), &options}, {grad_lse_keyword(), &of_lse}, {gradients_keyword(), &wanted}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    const attune::SdpaForward forward = forward_of(call, out, lse, grad_out, of_lse);
    Gradients gradients(call, wanted.gradients, {"query", "key", "value"});
    attune::SdpaGradients into;
    add_inputs(gradients, query, q, k, v, into);
    add_score(gradients, query, options, q, into);
    gradients.add("score_weight", query, options.score_weight, into.score_weight);
    nb::dict result = gradients.finish();
    call.run([&](Context &c) { return attune::scaled_dot_product_attention_backward(c, q, k, v, forward, into, options); });
    return result;
}

nb::object varlen_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle cu_seqlens_q, nb::handle cu_seqlens_k,
                           nb::handle out, nb::handle lse, nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    SdpaOptions options;
    Wanted wanted;
    GradLse of_lse;
    read_keywords(call, "variable_length_attention_backward", given_options,
                  {{attention_keywords(), &options}, {grad_lse_keyword(), &of_lse}, {gradients_keyword(), &wanted}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    const ConstView of_q = call.integers("cu_seqlens_q", cu_seqlens_q), of_k = call.integers("cu_seqlens_k", cu_seqlens_k);
    const attune::SdpaForward forward = forward_of(call, out, lse, grad_out, of_lse);
    Gradients gradients(call, wanted.gradients, {"query", "key", "value"});
    attune::SdpaGradients into;
    add_inputs(gradients, query, q, k, v, into);
    ConstView heads = q;  // (Tq, Hq, Dk) has its heads where (B, Hq, Sq, Dk) has them
    if (heads.rank == 3) heads.rank = 4;
    add_score(gradients, query, options, heads, into);
    gradients.add("score_weight", query, options.score_weight, into.score_weight);
    nb::dict result = gradients.finish();
    call.run(
        [&](Context &c) { return attune::variable_length_attention_backward(c, q, k, v, of_q, of_k, forward, into, options); });
    return result;
}

nb::object additive_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle lse,
                             nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    attune::AdditiveOptions options;
    Wanted wanted;
    GradLse of_lse;
    read_keywords(call, "additive_attention_backward", given_options,
                  {{additive_keywords(), &options},
                   {attention_keywords(), &options.attention},
                   {grad_lse_keyword(), &of_lse},
                   {gradients_keyword(), &wanted}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    const attune::SdpaForward forward = forward_of(call, out, lse, grad_out, of_lse);
    Gradients gradients(call, wanted.gradients, {"query", "key", "value"});
    attune::AdditiveGradients into;
    add_inputs(gradients, query, q, k, v, into);
    gradients.add("w_query", query, options.w_query, into.w_query), gradients.add("w_key", query, options.w_key, into.w_key);
    gradients.add("b_query", query, options.b_query, into.b_query), gradients.add("b_key", query, options.b_key, into.b_key);
    gradients.add("w_score", query, options.w_score, into.w_score);
    add_score(gradients, query, options.attention, q, into);
    nb::dict result = gradients.finish();
    call.run([&](Context &c) { return attune::additive_attention_backward(c, q, k, v, forward, into, options); });
    return result;
}

nb::object multi_head_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle w_query, nb::handle w_key,
                               nb::handle w_value, nb::handle w_out, nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    attune::MultiHeadWeights weights;
    attune::MultiHeadOptions options;
    Wanted wanted;
    read_keywords(call, "multi_head_attention_backward", given_options,
                  {{layer_head_keywords(), &options},
                   {layer_bias_keywords(), &weights},
                   {attention_keywords(), &options.attention},
                   {gradients_keyword(), &wanted}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    weights.query = call.input("w_query", w_query), weights.key = call.input("w_key", w_key);
    weights.value = call.input("w_value", w_value), weights.out = call.input("w_out", w_out);
    const ConstView grad = call.input("grad_out", grad_out);
    Gradients gradients(call, wanted.gradients, {"query", "key", "value", "w_query", "w_key", "w_value", "w_out"});
    attune::MultiHeadGradients into;
    add_inputs(gradients, query, q, k, v, into);
    gradients.add("w_query", query, weights.query, into.weights.query);
    gradients.add("w_key", query, weights.key, into.weights.key);
    gradients.add("w_value", query, weights.value, into.weights.value);
    gradients.add("w_out", query, weights.out, into.weights.out);
    gradients.add("b_query", query, weights.query_bias, into.weights.query_bias);
    gradients.add("b_key", query, weights.key_bias, into.weights.key_bias);
    gradients.add("b_value", query, weights.value_bias, into.weights.value_bias);
    gradients.add("b_out", query, weights.out_bias, into.weights.out_bias);
    ConstView heads = q;  // slopes are of the layer's heads
    heads.rank = 4, heads.extent[1] = options.heads;
    add_score(gradients, query, options.attention, heads, into.attention);
    gradients.add("score_weight", query, options.attention.score_weight, into.attention.score_weight);
    nb::dict result = gradients.finish();
    call.run([&](Context &c) { return attune::multi_head_attention_backward(c, q, k, v, weights, grad, into, options); });
    return result;
}

nb::object linear_backward(nb::handle x, nb::handle weight, nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    Variant variant;
    Wanted wanted;
    read_keywords(call, "linear_backward", given_options, {{variant_keyword(), &variant}, {gradients_keyword(), &wanted}});
    const ConstView in = given(x) ? call.input("x", x) : ConstView{},
                    w = given(weight) ? call.input("weight", weight) : ConstView{}, grad = call.input("grad_out", grad_out);
    const nb::handle like = given(x) ? x : grad_out;
    // Extents of an input that is not given follow from the others.
    const auto last = [](const ConstView &v) { return v.rank >= 1 && v.rank <= attune::max_rank ? v.extent[v.rank - 1] : 0; };
    ConstView of_x = in, of_weight = w;
    if (!given(x)) {
        of_x = grad;
        if (of_x.rank >= 1 && of_x.rank <= attune::max_rank) of_x.extent[of_x.rank - 1] = last(w);
    }
    if (!given(weight)) of_weight.rank = 2, of_weight.extent[0] = last(grad), of_weight.extent[1] = last(in);
    Gradients gradients(call, wanted.gradients, {"x", "weight"});
    attune::LinearGradients into;
    gradients.add("x", like, grad.dtype, extents_of(of_x), into.x);
    gradients.add("weight", like, grad.dtype, extents_of(of_weight), into.weight);
    gradients.add("bias", like, grad.dtype, {of_weight.rank == 2 ? of_weight.extent[0] : 0}, into.bias);
    nb::dict result = gradients.finish();
    call.run([&](Context &c) { return attune::linear_backward(c, in, w, grad, into, {.variant = variant.variant}); });
    return result;
}

}  // namespace

const Keywords &grad_lse_keyword() {
    static const Keywords *const table = new Keywords{
        {"grad_lse", "ArrayLike | None", "None", "Gradient of the loss by lse; None: the loss does not depend on lse.",
         input_<&GradLse::grad_lse>},
    };
    return *table;
}

void add_score_gradients(Gradients &gradients, nb::handle like, const SdpaOptions &options, const ConstView &query,
                         attune::SdpaGradients &into) {
    add_score(gradients, like, options, query, into);
}

void bind_gradients(nb::module_ &m) {
    using namespace nb::literals;
    constexpr const char *type = "dict[str, Array]";
    const std::vector<Positional> attention = {
        {"query", "ArrayLike", "query of the forward pass."},
        {"key", "ArrayLike", "key of the forward pass."},
        {"value", "ArrayLike", "value of the forward pass."},
        {"out", "ArrayLike", "Result of the forward pass."},
        {"lse", "ArrayLike", "lse of the forward pass."},
        {"grad_out", "ArrayLike", "Gradient of the loss by out, shape of out, last stride 1."},
    };
    add(m,
        {"scaled_dot_product_attention_backward",
         "Gradients of a loss by the inputs of scaled_dot_product_attention(). Options are those of the forward pass; dropout "
         "needs the same seed. Weights are recomputed: nothing of size (Sq, Sk) is stored but a bias gradient of that size.",
         attention,
         type,
         "The gradients wanted by name: query, key, value, bias, alibi_slopes (f32), sinks (f32), score_weight.",
         {&attention_keywords(), &grad_lse_keyword(), &gradients_keyword(), &common_keywords()}},
        &sdpa_backward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "out"_a.none(), "lse"_a.none(), "grad_out"_a.none(),
        "options"_a);
    std::vector<Positional> packed = attention;
    packed.insert(packed.begin() + 3, {{"cu_seqlens_q", "ArrayLike | Sequence[int]", "cu_seqlens_q of the forward pass."},
                                       {"cu_seqlens_k", "ArrayLike | Sequence[int]", "cu_seqlens_k of the forward pass."}});
    add(m,
        {"variable_length_attention_backward",
         "Gradients of a loss by the inputs of variable_length_attention(). Options are those of the forward pass; dropout "
         "needs the same seed.",
         packed,
         type,
         "The gradients wanted by name: query, key, value, alibi_slopes (f32, as the slopes), sinks (f32). Rows beyond the "
         "last sequence are not written.",
         {&attention_keywords(), &grad_lse_keyword(), &gradients_keyword(), &common_keywords()}},
        &varlen_backward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "cu_seqlens_q"_a.none(), "cu_seqlens_k"_a.none(),
        "out"_a.none(), "lse"_a.none(), "grad_out"_a.none(), "options"_a);
    add(m,
        {"additive_attention_backward",
         "Gradients of a loss by the inputs of additive_attention(). Options are those of the forward pass.",
         attention,
         type,
         "The gradients wanted by name: query, key, value, w_query, w_key, b_query, b_key, w_score, bias, alibi_slopes, sinks.",
         {&additive_keywords(), &attention_keywords(), &grad_lse_keyword(), &gradients_keyword(), &common_keywords()}},
        &additive_backward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "out"_a.none(), "lse"_a.none(),
        "grad_out"_a.none(), "options"_a);
    add(m,
        {"multi_head_attention_backward",
         "Gradients of a loss by the inputs of multi_head_attention(), whose projections and attention are recomputed.",
         {{"query", "ArrayLike", "query of the forward pass."},
          {"key", "ArrayLike", "key of the forward pass."},
          {"value", "ArrayLike", "value of the forward pass."},
          {"w_query", "ArrayLike", "(heads D, Eq)."},
          {"w_key", "ArrayLike", "(key_heads D, Ek)."},
          {"w_value", "ArrayLike", "(key_heads Dv, Ev)."},
          {"w_out", "ArrayLike", "(Eo, heads Dv)."},
          {"grad_out", "ArrayLike", "Gradient of the loss by out, (B, Sq, Eo)."}},
         type,
         "The gradients wanted by name: query, key, value, w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out, "
         "bias, alibi_slopes, sinks, score_weight. Each is that by one argument: where query, key and value are one array, "
         "its gradient is their sum.",
         {&layer_head_keywords(), &layer_bias_keywords(), &attention_keywords(), &gradients_keyword(), &common_keywords()}},
        &multi_head_backward, "query"_a.none(), "key"_a.none(), "value"_a.none(), "w_query"_a.none(), "w_key"_a.none(),
        "w_value"_a.none(), "w_out"_a.none(), "grad_out"_a.none(), "options"_a);
    add(m,
        {"linear_backward",
         "Gradients of a loss by the inputs of linear().",
         {{"x", "ArrayLike | None", "(..., K), as linear() took it; None where the gradient by weight is not wanted."},
          {"weight", "ArrayLike | None", "(N, K), not packed; None where the gradient by x is not wanted."},
          {"grad_out", "ArrayLike", "Gradient of the loss by out, (..., N)."}},
         type,
         "The gradients wanted by name: x, weight, bias. Without gradients: x and weight.",
         {&variant_keyword(), &gradients_keyword(), &common_keywords()}},
        &linear_backward, "x"_a.none(), "weight"_a.none(), "grad_out"_a.none(), "options"_a);
}

}  // namespace attune_python
