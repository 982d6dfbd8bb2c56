// SPDX-License-Identifier: MIT
// Commands of `attune run` and their options; those of serving are in serving_command_line.cpp, those for gradients in
// backward_command_line.cpp.
#include "tools/command_line/run_command_line.h"
#include "tools/command_line/command_line_parts.h"

namespace attune::program {
namespace {

const std::string memory = "Memory: the arrays, and for --weights or --heatmap B * Hq * Sq * Sk elements more.\n"
                           "Files are written when everything has succeeded, and never in part.\n\n";

void add_attention(CLI::App *command, AttentionArguments &a, bool layer, const char *default_scale) {
    add_tensors(command, a, layer);
    add_results(command, a, layer);
    add_masks(command, a);
    add_scores(command, a, default_scale);
}

void add_sdpa(CLI::App &run) {
    auto [sdpa, a] = add_command(run, "sdpa", "Scaled dot-product attention: softmax(scale * query key^T) value",
                                 memory + "Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy "
                                          "--causal bottom-right --window 255,0",
                                 run_sdpa);
    add_attention(sdpa, a->attention, false, "1 / sqrt(Dk), else 1");
    add_invariant(sdpa, a->attention);
    add_products_of_sdpa(sdpa, a->score, a->score_weight);
}

void add_additive(CLI::App &run) {
    auto [additive, a] =
        add_command(run, "additive", "Additive attention: scores sum over h of w_score tanh(W_q query + W_k key)",
                    memory + "Example:\n  attune run additive --query q.npy --key k.npy --value v.npy --w-query wq.npy "
                             "--w-key wk.npy --w-score w.npy --out o.npy",
                    run_additive);
    add_additive_layer(additive, *a);
    add_attention(additive, a->attention, false, "1");
}

void add_multi_head(CLI::App &run) {
    auto [mha, a] =
        add_command(run, "mha", "Multi-head attention layer: projections, attention of each head, projection",
                    memory + "Example:\n  attune run mha --query x.npy --key x.npy --value x.npy --heads 8 --w-query wq.npy "
                             "--w-key wk.npy --w-value wv.npy --w-out wo.npy --out o.npy",
                    run_multi_head);
    add_layer(mha, *a);
    add_attention(mha, a->attention, true, "1 / sqrt(D)");
}

void add_masked_softmax(CLI::App &run) {
    auto [softmax, a] =
        add_command(run, "masked-softmax", "Softmax over the last extent, with valid lengths",
                    "Example:\n  attune run masked-softmax --scores s.npy --valid-lens lens.npy --out w.npy --heatmap w.svg",
                    run_masked_softmax);
    file(softmax, "--scores", a->scores, "(B, H, Sq, Sk), (B, Sq, Sk) or (B, Sk)")->required();
    file(softmax, "--out", a->out, "Output of the same shape and type")->required();
    add_valid_lens_and_fill(softmax, a->valid_lens, a->fill);
    add_picture(softmax, a->picture);
    add_call(softmax, a->call);
}

void add_products(CLI::App &run) {
    auto [linear, l] =
        add_command(run, "linear", "Linear layer: x weight^T + bias",
                    "Example:\n  attune run linear --x x.npy --weight w.npy --bias b.npy --out y.npy", run_linear);
    file(linear, "--x", l->x, "(..., K)")->required();
    file(linear, "--weight", l->weight, "(N, K)")->required();
    file(linear, "--bias", l->bias, "(N,)");
    file(linear, "--out", l->out, "Output (..., N)")->required();
    linear->add_flag("--packed", l->packed,
                     "Pack the weight first, as for a layer that is called often; the result is the same");
    add_call(linear, l->call);

    auto [dot, d] = add_command(run, "batch-dot", "A product of matrices for each entry of a batch",
                                "Example:\n  attune run batch-dot --a a.npy --x x.npy --out y.npy", run_batch_dot);
    file(dot, "--a", d->a, "(..., n, m)")->required();
    file(dot, "--x", d->x, "(..., m, p)")->required();
    file(dot, "--out", d->out, "Output (..., n, p)")->required();
    add_call(dot, d->call);
}

void add_dropout_mask(CLI::App &run) {
    auto [mask, a] = add_command(
        run, "dropout-mask", "Which weights dropout keeps, as bool",
        "Example:\n  attune run dropout-mask --shape 2,8,128,128 --dropout 0.1 --seed 7 --out mask.npy", run_dropout_mask);
    mask->add_option("--shape", a->shape, "Of the weights, with the heads of the query; without them, of one head")
        ->type_name("B,Hq,Sq,Sk|B,Sq,Sk")
        ->required();
    file(mask, "--out", a->out, "Output, True where the weight is kept")->required();
    add_dropout(mask, a->dropout);
    mask->get_option("--dropout")->required();
    mask->add_option("--threads", a->call.threads, "Default, and 0: one a core; results do not depend on it")->type_name("N");
}

}  // namespace

void add_run(CLI::App &app) {
    CLI::App *run = app.add_subcommand("run", "Compute one function on arrays in files");
    run->require_subcommand(1);
    run->footer("Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy");
    add_sdpa(*run);
    add_additive(*run);
    add_multi_head(*run);
    add_serving(*run);
    add_masked_softmax(*run);
    add_products(*run);
    add_dropout_mask(*run);
    add_backward(*run);
}

}  // namespace attune::program
