// The options of `attune run`, one by one; those that commands share are declared once.
#include "run_command_line.h"
#include "commands.h"
#include "error.h"
#include <memory>

namespace attune::program {
namespace {

const std::string memory = "Memory: the arrays, and for --weights or --heatmap B * Hq * Sq * Sk elements more.\n"
                           "Files are written when everything has succeeded, and never in part.\n\n";

// A command with its arguments, which live as long as the command can run.
template<typename Arguments>
std::pair<CLI::App *, Arguments *> add_command(CLI::App &run, const char *name, const char *does, const std::string &footer,
                                               void (*function)(const Arguments &)) {
    CLI::App *command = run.add_subcommand(name, does);
    command->footer(footer);
    const auto arguments = std::make_shared<Arguments>();
    command->final_callback([command, arguments, function] {
        // CLI11 takes an empty word for an option that was not given.
        for (const CLI::Option *option : command->get_options())
            for (const std::string &word : option->results())
                if (word.empty()) throw InputError(option->get_name(), "is empty");
        function(*arguments);
    });
    return {command, arguments.get()};
}

template<typename Text> CLI::Option *file(CLI::App *command, const char *name, Text &to, const std::string &about) {
    return command->add_option(name, to, about)->type_name("FILE");
}

void add_call(CLI::App *command, CallArguments &a) {
    command
        ->add_option("--dtype", a.dtype,
                     "Convert arrays of floats on load (default: the type of the first); results of bf16 are float32 files")
        ->type_name("f32|f64|bf16|f16");
    command->add_option("--threads", a.threads, "Default: one a core; results do not depend on it")->type_name("N");
    command->add_option("--variant", a.variant, "Run this one of `attune variants`, or fail")->type_name("NAME");
}

void add_picture(CLI::App *command, PictureArguments &a) {
    file(command, "--heatmap", a.file, "Output: picture of the weights, SVG, at most 250000 cells");
    file(command, "--labels-query", a.labels_query, "Words of the queries, one a line, UTF-8; one file, or one a batch entry");
    file(command, "--labels-key", a.labels_key, "Words of the keys, likewise");
}

void add_dropout(CLI::App *command, DropoutArguments &a) {
    command->add_option("--dropout", a.probability, "Each weight becomes 0 with probability P, or is divided by 1 - P")
        ->type_name("P");
    command->add_option("--seed", a.seed, "Of --dropout, 64 bits (default 0); the mask depends on it and on b, h, i, j alone")
        ->type_name("N");
    command->add_option("--dropout-offset", a.offset, "Another mask of the same seed, 32 bits (default 0)")->type_name("N");
}

// What acts on the scores one by one, and the call: what attention of every kind takes.
void add_scores(CLI::App *command, AttentionArguments &a, const char *default_scale) {
    command->add_option("--scale", a.scale, std::string("Factor of the scores (default ") + default_scale + ")")
        ->type_name("F");
    command->add_option("--softcap", a.softcap, "A score x becomes C tanh(x / C); 0: off")->type_name("C");
    command->add_option("--alibi", a.alibi, "Adds -slope |i + off - j|: the standard slopes, or a file (Hq,) or (B, Hq)")
        ->type_name("auto|FILE");
    command->add_option("--causal", a.causal, "Query i sees key j <= i + off: off is 0, Sk - Sq, or --offset")
        ->type_name("top-left|bottom-right|offset");
    command->add_option("--offset", a.offset, "Position of query 0 among the keys: a number, or a file (B,) int32 or int64")
        ->type_name("N|FILE");
    command->add_option("--window", a.window, "Query i sees key i+off-LEFT to i+off+RIGHT; -1 leaves a side open")
        ->type_name("LEFT,RIGHT");
    file(command, "--sinks", a.sinks, "(Hq,): a score of each head's own that joins the normaliser and no value");
    add_dropout(command, a.dropout);
    add_call(command, a.call);
}

void add_tensors(CLI::App *command, AttentionArguments &a, bool layer) {
    const std::string rank = layer ? "" : "; or all (B, S, D), or (S, D)";
    file(command, "--query", a.query,
         (layer ? "(B, Sq, Eq)" : "(B, Hq, Sq, Dq)") + rank + "; .npy, float32, float64 or float16")
        ->required();
    file(command, "--key", a.key, layer ? "(B, Sk, Ek)" : "(B, Hkv, Sk, Dk); Hq is a multiple of Hkv")->required();
    file(command, "--value", a.value, layer ? "(B, Sk, Ev)" : "(B, Hkv, Sk, Dv)")->required();
}

void add_results(CLI::App *command, AttentionArguments &a, bool layer) {
    file(command, "--out", a.out, layer ? "Output (B, Sq, Eo)" : "Output (B, Hq, Sq, Dv), in the type of the computation")
        ->required();
    file(command, "--lse", a.lse, "Output (B, Hq, Sq): log of the sum of exponentials of the scores, -inf without keys");
    file(command, "--weights", a.weights, "Output (B, Hq, Sq, Sk): softmax of the scores, before dropout");
    command
        ->add_option("--weights-mode", a.weights_mode,
                     "--weights is 0 the scaled score, 1 after softcap, 2 after bias and "
                     "masks, 3 (default) after the softmax")
        ->type_name("0|1|2|3");
    command->add_flag("--average-weights", a.average_weights, "--weights and --heatmap are the mean over the heads");
    add_picture(command, a.picture);
}

void add_masks(CLI::App *command, AttentionArguments &a) {
    file(command, "--bias", a.bias, "Added to the scores; broadcasts to (B, Hq, Sq, Sk); -inf masks");
    file(command, "--mask", a.mask,
         "bool, or 0 and 1 as uint8, int8, int32, int64; broadcasts to (B, Hq, Sq, Sk): only keys where it is true take part");
    file(command, "--valid-lens", a.valid_lens, "(B,) or (B, Sq) int32 or int64: only keys j < len take part");
    file(command, "--cache-lens", a.cache_lens,
         "(B,) int32 or int64: key and value are caches, in which the Sq keys of this call follow so many older ones");
}

void add_attention(CLI::App *command, AttentionArguments &a, bool layer, const char *default_scale) {
    add_tensors(command, a, layer);
    add_results(command, a, layer);
    add_masks(command, a);
    add_scores(command, a, default_scale);
}

void add_products_of_sdpa(CLI::App *command, Given &score, Given &score_weight) {
    command->add_option("--score", score, "q . k (default), q . (W k), q . k / (|q| |k|), or -|q - k|^2 / 2, times --scale")
        ->type_name("dot|general|cosine|gaussian");
    file(command, "--score-weight", score_weight, "W of --score general, (Dq, Dk)");
}

void add_sdpa(CLI::App &run) {
    auto [sdpa, a] = add_command(run, "sdpa", "Scaled dot-product attention: softmax(scale * query key^T) value",
                                 memory + "Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy "
                                          "--causal bottom-right --window 255,0",
                                 run_sdpa);
    add_attention(sdpa, a->attention, false, "1 / sqrt(Dk), else 1");
    add_products_of_sdpa(sdpa, a->score, a->score_weight);
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
    file(backward, "--grad-query", a->grad_query, "Output, as --query; at least one of the gradients is asked for");
    file(backward, "--grad-key", a->grad_key, "Output, as --key");
    file(backward, "--grad-value", a->grad_value, "Output, as --value");
    file(backward, "--grad-bias", a->grad_bias, "Output, as --bias: summed over what that was broadcast over");
    file(backward, "--grad-slopes", a->grad_slopes, "Output, float32, as the file of --alibi, or (Hq,) of --alibi auto");
    file(backward, "--grad-sinks", a->grad_sinks, "Output (Hq,), float32");
    file(backward, "--grad-score-weight", a->grad_score_weight, "Output, as --score-weight");
    add_masks(backward, a->attention);
    add_scores(backward, a->attention, "1 / sqrt(Dk), else 1");
    add_products_of_sdpa(backward, a->score, a->score_weight);
}

void add_additive(CLI::App &run) {
    auto [additive, a] =
        add_command(run, "additive", "Additive attention: scores sum over h of w_score tanh(W_q query + W_k key)",
                    memory + "Example:\n  attune run additive --query q.npy --key k.npy --value v.npy --w-query wq.npy "
                             "--w-key wk.npy --w-score w.npy --out o.npy",
                    run_additive);
    file(additive, "--w-query", a->w_query, "(h, Dq); without it --query is projected already, and h wide");
    file(additive, "--w-key", a->w_key, "(h, Dk); likewise");
    file(additive, "--b-query", a->b_query, "(h,), added to the projected query");
    file(additive, "--b-key", a->b_key, "(h,), added to the projected key");
    file(additive, "--w-score", a->w_score, "(h,); default all ones");
    additive->add_option("--b-score", a->b_score, "Added to every score: a number, or a file with one")->type_name("F|FILE");
    add_attention(additive, a->attention, false, "1");
}

void add_multi_head(CLI::App &run) {
    auto [mha, a] =
        add_command(run, "mha", "Multi-head attention layer: projections, attention of each head, projection",
                    memory + "Example:\n  attune run mha --query x.npy --key x.npy --value x.npy --heads 8 --w-query wq.npy "
                             "--w-key wk.npy --w-value wv.npy --w-out wo.npy --out o.npy",
                    run_multi_head);
    mha->add_option("--heads", a->heads, "Hq, heads of the query; must divide the rows of --w-query")
        ->type_name("N")
        ->required();
    mha->add_option("--kv-heads", a->kv_heads, "Hkv, heads of key and value (default: as many)")->type_name("N");
    file(mha, "--w-query", a->w_query, "(Hq * D, Eq)")->required();
    file(mha, "--w-key", a->w_key, "(Hkv * D, Ek)")->required();
    file(mha, "--w-value", a->w_value, "(Hkv * Dv, Ev)")->required();
    file(mha, "--w-out", a->w_out, "(Eo, Hq * Dv)")->required();
    file(mha, "--b-query", a->b_query, "(Hq * D,)");
    file(mha, "--b-key", a->b_key, "(Hkv * D,)");
    file(mha, "--b-value", a->b_value, "(Hkv * Dv,)");
    file(mha, "--b-out", a->b_out, "(Eo,)");
    add_attention(mha, a->attention, true, "1 / sqrt(D)");
}

void add_masked_softmax(CLI::App &run) {
    auto [softmax, a] =
        add_command(run, "masked-softmax", "Softmax over the last extent, with valid lengths",
                    "Example:\n  attune run masked-softmax --scores s.npy --valid-lens lens.npy --out w.npy --heatmap w.svg",
                    run_masked_softmax);
    file(softmax, "--scores", a->scores, "(B, H, Sq, Sk), (B, Sq, Sk) or (B, Sk)")->required();
    file(softmax, "--out", a->out, "Output of the same shape and type")->required();
    file(softmax, "--valid-lens", a->valid_lens, "(B,) or (B, Sq) int32 or int64: only scores j < len take part");
    softmax
        ->add_option("--fill", a->fill,
                     "Masked scores are -inf, so that a row without keys is 0 (default); or -1e6, so that it "
                     "is uniform")
        ->type_name("zero|seed");
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
    mask->add_option("--threads", a->call.threads, "Default: one a core; results do not depend on it")->type_name("N");
}

void add_variable_length(CLI::App &run) {
    auto [varlen, a] =
        add_command(run, "varlen", "Attention over a packed batch: sequences one after another, without padding",
                    "Example:\n  attune run varlen --query q.npy --key k.npy --value v.npy --cu-seqlens-q cq.npy "
                    "--cu-seqlens-k ck.npy --out o.npy --causal bottom-right",
                    run_variable_length);
    AttentionArguments &attention = a->attention;
    file(varlen, "--query", attention.query, "(Tq, Hq, Dk), the sequences one after another")->required();
    file(varlen, "--key", attention.key, "(Tk, Hkv, Dk); Hq is a multiple of Hkv")->required();
    file(varlen, "--value", attention.value, "(Tk, Hkv, Dv)")->required();
    file(varlen, "--cu-seqlens-q", a->cu_seqlens_q, "(B + 1,) int32 or int64: where sequences begin and end, from 0")
        ->required();
    file(varlen, "--cu-seqlens-k", a->cu_seqlens_k, "(B + 1,), likewise of key and value")->required();
    file(varlen, "--out", attention.out, "Output (Tq, Hq, Dv); 0 in rows beyond the last sequence")->required();
    file(varlen, "--lse", attention.lse, "Output (Hq, Tq): log of the sum of exponentials of the scores; 0 in those rows");
    varlen->add_option("--score", a->score, "q . k (default), q . k / (|q| |k|), or -|q - k|^2 / 2, times --scale")
        ->type_name("dot|cosine|gaussian");
    add_scores(varlen, attention, "1 / sqrt(Dk), else 1");
}

void add_kv_append(CLI::App &run) {
    auto [append, a] =
        add_command(run, "kv-append", "Appends rows of keys and values to caches",
                    "Example:\n  attune run kv-append --key k.npy --value v.npy --key-cache kc.npy --value-cache "
                    "vc.npy --cache-lens lens.npy --key-out kc1.npy --value-out vc1.npy",
                    run_kv_append);
    file(append, "--key", a->key, "(B, Hkv, S, Dk), the rows to append")->required();
    file(append, "--value", a->value, "(B, Hkv, S, Dv)")->required();
    file(append, "--key-cache", a->key_cache, "(B, Hkv, C, Dk)")->required();
    file(append, "--value-cache", a->value_cache, "(B, Hkv, C, Dv)")->required();
    file(append, "--cache-lens", a->cache_lens, "(B,) int32 or int64: the rows that the caches hold")->required();
    file(append, "--new-lens", a->new_lens, "(B,) int32 or int64: only so many of the rows are appended");
    append->add_option("--when-full", a->when_full, "Rows that do not fit are an error (default), or the oldest make room")
        ->type_name("refuse|slide");
    file(append, "--key-out", a->key_out, "Output: the cache of keys afterwards")->required();
    file(append, "--value-out", a->value_out, "Output: the cache of values afterwards")->required();
    add_call(append, a->call);
    append->remove_option(append->get_option("--variant"));
}

void add_merge(CLI::App &run) {
    auto [merge, a] = add_command(
        run, "merge", "Merges two attentions of the same queries over different keys",
        "Example:\n  attune run merge --out-a o1.npy --lse-a l1.npy --out-b o2.npy --lse-b l2.npy --out o.npy", run_merge);
    file(merge, "--out-a", a->out_a, "(B, Hq, Sq, Dv), (Hq, Sq, Dv) or (Sq, Dv)")->required();
    file(merge, "--lse-a", a->lse_a, "The same without Dv: what --lse of the attention wrote")->required();
    file(merge, "--out-b", a->out_b, "The other part")->required();
    file(merge, "--lse-b", a->lse_b, "Likewise")->required();
    file(merge, "--out", a->out, "Output: attention over the keys of both")->required();
    file(merge, "--lse", a->lse, "Output: its log of the sum of exponentials");
    add_call(merge, a->call);
    merge->remove_option(merge->get_option("--variant"));
}

}  // namespace

void add_run(CLI::App &app) {
    CLI::App *run = app.add_subcommand("run", "Compute one function on arrays in files");
    run->require_subcommand(1);
    run->footer("Example:\n  attune run sdpa --query q.npy --key k.npy --value v.npy --out o.npy");
    add_sdpa(*run);
    add_sdpa_backward(*run);
    add_additive(*run);
    add_multi_head(*run);
    add_variable_length(*run);
    add_kv_append(*run);
    add_merge(*run);
    add_masked_softmax(*run);
    add_products(*run);
    add_dropout_mask(*run);
}

}  // namespace attune::program
