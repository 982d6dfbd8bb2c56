// SPDX-License-Identifier: MIT
// The commands of `attune run` that compute gradients.
#include "tools/command_line/command_line_parts.h"

namespace attune::program {
namespace {

// Adds the gradients that all commands have.
template<typename Arguments> void add_input_gradients(CLI::App *command, Arguments &a) {
    file(command, "--grad-query", a.grad_query, "Output, as --query; at least one of the gradients is asked for");
    file(command, "--grad-key", a.grad_key, "Output, as --key");
    file(command, "--grad-value", a.grad_value, "Output, as --value");
}
template<typename Arguments> void add_option_gradients(CLI::App *command, Arguments &a) {
    file(command, "--grad-bias", a.grad_bias, "Output, as --bias: summed over what that was broadcast over");
    file(command, "--grad-slopes", a.grad_slopes, "Output, float32, as the file of --alibi, or (Hq,) of --alibi auto");
    file(command, "--grad-sinks", a.grad_sinks, "Output (Hq,), float32");
}

void add_sdpa_backward(CLI::App &run) {
    auto [backward, a] = add_command(
        run, "sdpa-backward", "Gradients of a loss by the inputs of scaled dot-product attention",
        "The options are those of `attune run sdpa`.\n\nExample:\n  attune run sdpa-backward --query q.npy --key k.npy --value "
        "v.npy --grad-out do.npy --grad-query dq.npy --grad-key dk.npy --grad-value dv.npy --causal top-left",
        run_sdpa_backward);
    add_tensors(backward, a->attention, false);
    file(backward, "--grad-out", a->grad_out, "(B, Hq, Sq, Dv): gradient of the loss by the output")->required();
    file(backward, "--grad-lse", a->grad_lse, "(B, Hq, Sq): gradient of the loss by the log-sum-exp (default: 0)");
    file(backward, "--in-out", a->in_out,
         "(B, Hq, Sq, Dv): --out of the forward; without it and --in-lse, the forward runs first");
    file(backward, "--in-lse", a->in_lse, "(B, Hq, Sq): --lse of the forward");
    add_input_gradients(backward, *a);
    add_option_gradients(backward, *a);
    file(backward, "--grad-score-weight", a->grad_score_weight, "Output, as --score-weight");
    add_masks(backward, a->attention);
    add_scores(backward, a->attention, "1 / sqrt(Dk), else 1");
    add_products_of_sdpa(backward, a->score, a->score_weight);
}

void add_variable_length_backward(CLI::App &run) {
    auto [backward, a] = add_command(
        run, "varlen-backward", "Gradients of a loss by the inputs of attention over a packed batch",
        "The options are those of `attune run varlen`.\n\nExample:\n  attune run varlen-backward --query q.npy --key k.npy "
        "--value v.npy --cu-seqlens-q cq.npy --cu-seqlens-k ck.npy --grad-out do.npy --grad-query dq.npy --causal bottom-right",
        run_variable_length_backward);
    add_packed_tensors(backward, a->packed);
    file(backward, "--grad-out", a->grad_out, "(Tq, Hq, Dv): gradient of the loss by the output")->required();
    file(backward, "--grad-lse", a->grad_lse, "(Hq, Tq): gradient of the loss by the log-sum-exp (default: 0)");
    file(backward, "--in-out", a->in_out,
         "(Tq, Hq, Dv): --out of the forward; without it and --in-lse, the forward runs first");
    file(backward, "--in-lse", a->in_lse, "(Hq, Tq): --lse of the forward");
    add_input_gradients(backward, *a);
    file(backward, "--grad-slopes", a->grad_slopes, "Output, float32, as the file of --alibi, or (Hq,) of --alibi auto");
    file(backward, "--grad-sinks", a->grad_sinks, "Output (Hq,), float32");
    add_packed_scores(backward, a->packed);
}

void add_additive_backward(CLI::App &run) {
    auto [backward, a] = add_command(
        run, "additive-backward", "Gradients of a loss by the inputs and weights of additive attention",
        "The options are those of `attune run additive`.\n\nExample:\n  attune run additive-backward --query q.npy --key k.npy "
        "--value v.npy --w-query wq.npy --w-key wk.npy --w-score w.npy --grad-out do.npy --grad-w-query dwq.npy --grad-w-score "
        "dw.npy",
        run_additive_backward);
    AttentionArguments &attention = a->additive.attention;
    add_tensors(backward, attention, false);
    file(backward, "--grad-out", a->grad_out, "(B, Hq, Sq, Dv): gradient of the loss by the output")->required();
    file(backward, "--grad-lse", a->grad_lse, "(B, Hq, Sq): gradient of the loss by the log-sum-exp (default: 0)");
    add_additive_layer(backward, a->additive);
    add_input_gradients(backward, *a);
    file(backward, "--grad-w-query", a->grad_w_query, "Output, as --w-query");
    file(backward, "--grad-w-key", a->grad_w_key, "Output, as --w-key");
    file(backward, "--grad-b-query", a->grad_b_query, "Output, as --b-query");
    file(backward, "--grad-b-key", a->grad_b_key, "Output, as --b-key");
    file(backward, "--grad-w-score", a->grad_w_score, "Output, as --w-score");
    add_option_gradients(backward, *a);
    add_masks(backward, attention);
    add_scores(backward, attention, "1");
}

void add_multi_head_backward(CLI::App &run) {
    auto [mha, a] = add_command(
        run, "mha-backward", "Gradients of a loss by the inputs and weights of the multi-head attention layer",
        "The options are those of `attune run mha`. The gradients of query, key and value are by each argument alone, also "
        "where "
        "they are the same file.\n\nExample:\n  attune run mha-backward --query x.npy --key x.npy --value x.npy --heads 8 "
        "--w-query wq.npy --w-key wk.npy --w-value wv.npy --w-out wo.npy --grad-out do.npy --grad-query dx.npy --grad-w-query "
        "dwq.npy",
        run_multi_head_backward);
    AttentionArguments &attention = a->layer.attention;
    add_tensors(mha, attention, true);
    file(mha, "--grad-out", a->grad_out, "(B, Sq, Eo): gradient of the loss by the output")->required();
    add_layer(mha, a->layer);
    add_input_gradients(mha, *a);
    file(mha, "--grad-w-query", a->grad_w_query, "Output, as --w-query");
    file(mha, "--grad-w-key", a->grad_w_key, "Output, as --w-key");
    file(mha, "--grad-w-value", a->grad_w_value, "Output, as --w-value");
    file(mha, "--grad-w-out", a->grad_w_out, "Output, as --w-out");
    file(mha, "--grad-b-query", a->grad_b_query, "Output, as --b-query");
    file(mha, "--grad-b-key", a->grad_b_key, "Output, as --b-key");
    file(mha, "--grad-b-value", a->grad_b_value, "Output, as --b-value");
    file(mha, "--grad-b-out", a->grad_b_out, "Output, as --b-out");
    add_option_gradients(mha, *a);
    add_masks(mha, attention);
    add_scores(mha, attention, "1 / sqrt(D)");
}

void add_parts_backward(CLI::App &run) {
    auto [linear, l] = add_command(run, "linear-backward", "Gradients of a loss by the inputs of a linear layer",
                                   "Example:\n  attune run linear-backward --x x.npy --weight w.npy --grad-out dy.npy --grad-x "
                                   "dx.npy --grad-weight dw.npy --grad-bias db.npy",
                                   run_linear_backward);
    file(linear, "--x", l->x, "(..., K); needed for --grad-weight");
    file(linear, "--weight", l->weight, "(N, K); needed for --grad-x");
    file(linear, "--grad-out", l->grad_out, "(..., N): gradient of the loss by the output")->required();
    file(linear, "--grad-x", l->grad_x, "Output (..., K); at least one of the gradients is asked for");
    file(linear, "--grad-weight", l->grad_weight, "Output (N, K)");
    file(linear, "--grad-bias", l->grad_bias, "Output (N,)");
    add_call(linear, l->call);

    auto [softmax, s] = add_command(run, "masked-softmax-backward", "Gradient of a loss by the scores of a masked softmax",
                                    "Example:\n  attune run masked-softmax-backward --scores s.npy --valid-lens lens.npy "
                                    "--grad-out dw.npy --grad-scores ds.npy",
                                    run_masked_softmax_backward);
    file(softmax, "--scores", s->scores, "(B, H, Sq, Sk), (B, Sq, Sk) or (B, Sk): the forward runs first");
    file(softmax, "--in-out", s->in_out, "--out of the forward, instead of --scores");
    file(softmax, "--grad-out", s->grad_out, "Of the same shape: gradient of the loss by the output")->required();
    file(softmax, "--grad-scores", s->grad_scores, "Output of the same shape and type")->required();
    add_valid_lens_and_fill(softmax, s->valid_lens, s->fill);
    add_call(softmax, s->call);
}

}  // namespace

void add_backward(CLI::App &run) {
    add_sdpa_backward(run);
    add_variable_length_backward(run);
    add_additive_backward(run);
    add_multi_head_backward(run);
    add_parts_backward(run);
}

}  // namespace attune::program
