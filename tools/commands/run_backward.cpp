// SPDX-License-Identifier: MIT
// attune run sdpa-backward: gradients of `run sdpa`, after a forward pass of its own or one from files.
#include "tools/calls/gradient.h"
#include "tools/error.h"

namespace attune::program {

void run_sdpa_backward(const SdpaBackwardArguments &given) {
    Gradient query{"--grad-query", given.grad_query}, key{"--grad-key", given.grad_key},
        value{"--grad-value", given.grad_value}, bias{"--grad-bias", given.grad_bias},
        slopes{"--grad-slopes", given.grad_slopes}, sinks{"--grad-sinks", given.grad_sinks},
        score_weight{"--grad-score-weight", given.grad_score_weight};
    const std::initializer_list<Gradient *> gradients = {&query, &key, &value, &bias, &slopes, &sinks, &score_weight};
    if (given.in_out && !given.in_lse) throw InputError("--in-out", "needs --in-lse");
    if (given.in_lse && !given.in_out) throw InputError("--in-lse", "needs --in-out");

    CommandFiles files(given.attention.call);
    Attention attention(given.attention, files, Attention::Heads::given);
    SdpaOptions &options = attention.options;
    options.score = score_of(given.score);
    constexpr int kept = 3, kept_of_lse = 2;  // extents that are not the batch
    const Ranks rows{2, any_rank, "(B, Hq, Sq, Dv), (B, Sq, Dv) or (Sq, Dv)"},
        sums{1, any_rank, "(B, Hq, Sq), (B, Sq) or (Sq,)"};
    Array weight, grad_out, grad_lse, out, lse;
    files.input("--score-weight", given.score_weight, weight, {2, 2, "(Dq, Dk)"});
    files.input("--grad-out", given.grad_out, grad_out, rows);
    files.input("--grad-lse", given.grad_lse, grad_lse, sums, Role::sums);
    files.input("--in-out", given.in_out, out, rows);
    files.input("--in-lse", given.in_lse, lse, sums, Role::sums);
    name_outputs(files, gradients);
    files.load();
    attention.add_arrays();
    options.score_weight = view_of(weight);
    attention.check_batch("--grad-out", grad_out, kept);
    if (given.grad_lse) attention.check_batch("--grad-lse", grad_lse, kept_of_lse);
    if (given.in_out) attention.check_batch("--in-out", out, kept), attention.check_batch("--in-lse", lse, kept_of_lse);

    const ElementType type = files.type();
    const Array &q = attention.query;
    const std::int64_t heads = q.rank() > 3 ? q.shape[q.shape.size() - 3] : 1;
    SdpaGradients wanted;
    wanted.query = query.make("--query", true, type, q.shape, kept);
    wanted.key = key.make("--key", true, type, attention.key.shape, kept);
    wanted.value = value.make("--value", true, type, attention.value.shape, kept);
    wanted.score_weight = score_weight.make("--score general", options.score == Score::general, type, weight.shape, 2);
    make_option_gradients(attention, heads, type, bias, slopes, sinks, wanted);

    Context context(context_options(given.attention.call));
    check(context.status());
    const ConstView q_view = attention.query_view(), k_view = attention.key_view(), v_view = attention.value_view();
    if (!given.in_out) {
        Shape shape(q.shape.begin(), q.shape.end() - 1);
        lse = output_array("--grad-out", files.sum_type(), shape);
        shape.push_back(attention.value.shape.back());
        out = output_array("--grad-out", type, shape);
        SdpaOptions forward = options;
        forward.lse = output_view(lse, kept_of_lse), forward.variant = {};
        check(scaled_dot_product_attention(context, q_view, k_view, v_view, output_view(out, kept), forward));
    }
    const SdpaForward forward{view_of(out, kept), view_of(lse, kept_of_lse), view_of(grad_out, kept),
                              view_of(grad_lse, kept_of_lse)};
    check(scaled_dot_product_attention_backward(context, q_view, k_view, v_view, forward, wanted, options));

    write_all(files, gradients);
}

}  // namespace attune::program
