// SPDX-License-Identifier: MIT
// attune run additive-backward: gradients of `run additive`, after a forward pass of its own.
#include "tools/calls/additive_layer.h"
#include "tools/calls/gradient.h"

namespace attune::program {

void run_additive_backward(const AdditiveBackwardArguments &given) {
    Gradient query{"--grad-query", given.grad_query}, key{"--grad-key", given.grad_key},
        value{"--grad-value", given.grad_value}, w_query{"--grad-w-query", given.grad_w_query},
        w_key{"--grad-w-key", given.grad_w_key}, b_query{"--grad-b-query", given.grad_b_query},
        b_key{"--grad-b-key", given.grad_b_key}, w_score{"--grad-w-score", given.grad_w_score},
        bias{"--grad-bias", given.grad_bias}, slopes{"--grad-slopes", given.grad_slopes},
        sinks{"--grad-sinks", given.grad_sinks};
    const std::initializer_list<Gradient *> gradients = {&query, &key,     &value, &w_query, &w_key, &b_query,
                                                         &b_key, &w_score, &bias,  &slopes,  &sinks};
    CommandFiles files(given.additive.attention.call);
    Attention attention(given.additive.attention, files, Attention::Heads::given);
    AdditiveLayer layer(given.additive, files);
    Array grad_out, grad_lse;
    files.input("--grad-out", given.grad_out, grad_out, {2, any_rank, "(B, Hq, Sq, Dv), (B, Sq, Dv) or (Sq, Dv)"});
    files.input("--grad-lse", given.grad_lse, grad_lse, {1, any_rank, "(B, Hq, Sq), (B, Sq) or (Sq,)"}, Role::sums);
    name_outputs(files, gradients);
    files.load();
    attention.add_arrays();
    constexpr int kept = 3, kept_of_lse = 2;  // extents that are not the batch
    attention.check_batch("--grad-out", grad_out, kept);
    if (given.grad_lse) attention.check_batch("--grad-lse", grad_lse, kept_of_lse);

    const ElementType type = files.type();
    const Array &q = attention.query;
    AdditiveGradients wanted;
    wanted.query = query.make("--query", true, type, q.shape, kept);
    wanted.key = key.make("--key", true, type, attention.key.shape, kept);
    wanted.value = value.make("--value", true, type, attention.value.shape, kept);
    const auto of = [&](Gradient &gradient, const char *name, const Array &array) {
        return gradient.make(name, array.rank() > 0, type, array.shape, array.rank());
    };
    wanted.w_query = of(w_query, "--w-query", layer.w_query), wanted.w_key = of(w_key, "--w-key", layer.w_key);
    wanted.b_query = of(b_query, "--b-query", layer.b_query), wanted.b_key = of(b_key, "--b-key", layer.b_key);
    wanted.w_score = of(w_score, "--w-score", layer.w_score);
    SdpaGradients of_options;
    const std::int64_t heads = q.rank() > 3 ? q.shape[q.shape.size() - 3] : 1;
    make_option_gradients(attention, heads, type, bias, slopes, sinks, of_options);
    wanted.bias = of_options.bias, wanted.alibi_slopes = of_options.alibi_slopes, wanted.sinks = of_options.sinks;

    Context context(context_options(given.additive.attention.call));
    check(context.status());
    const ConstView q_view = attention.query_view(), k_view = attention.key_view(), v_view = attention.value_view();
    Shape shape(q.shape.begin(), q.shape.end() - 1);
    Array lse = output_array("--grad-out", files.sum_type(), shape);
    shape.push_back(attention.value.shape.back());
    Array out = output_array("--grad-out", type, shape);
    AdditiveOptions options = layer.options();
    options.attention = attention.options, options.attention.variant = {};
    options.attention.lse = output_view(lse, kept_of_lse);
    check(additive_attention(context, q_view, k_view, v_view, output_view(out, kept), options));
    options.attention = attention.options;
    const SdpaForward forward{view_of(out, kept), view_of(lse, kept_of_lse), view_of(grad_out, kept),
                              view_of(grad_lse, kept_of_lse)};
    check(additive_attention_backward(context, q_view, k_view, v_view, forward, wanted, options));
    write_all(files, gradients);
}

}  // namespace attune::program
