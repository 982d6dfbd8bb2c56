// SPDX-License-Identifier: MIT
// Options common to commands of `attune run`.
#include "tools/command_line/command_line_parts.h"

namespace attune::program {

void add_call(CLI::App *command, CallArguments &a) {
    command
        ->add_option("--dtype", a.dtype,
                     "Convert arrays of floats on load (default: the type of the first); results of bf16 are float32 files")
        ->type_name("f32|f64|bf16|f16");
    command->add_option("--threads", a.threads, "Default, and 0: one a core; results do not depend on it")->type_name("N");
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
    command
        ->add_option("--dropout-first-query", a.first_query, "Number of query 0 in a larger call, whose weights are kept here")
        ->type_name("N");
    command->add_option("--dropout-first-key", a.first_key, "Number of key 0 in the larger call")->type_name("N");
    command->add_option("--dropout-first-head", a.first_head, "Number b H + h of head 0 in the larger call")->type_name("N");
    command->add_option("--dropout-heads", a.heads, "H, query heads of the larger call (default Hq)")->type_name("H");
}

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

void add_invariant(CLI::App *command, AttentionArguments &a) {
    command->add_flag("--invariant", a.invariant, "The same bits for a prompt at once, in chunks and token by token");
}

void add_products_of_sdpa(CLI::App *command, Given &score, Given &score_weight) {
    command->add_option("--score", score, "q . k (default), q . (W k), q . k / (|q| |k|), or -|q - k|^2 / 2, times --scale")
        ->type_name("dot|general|cosine|gaussian");
    file(command, "--score-weight", score_weight, "W of --score general, (Dq, Dk)");
}

void add_additive_layer(CLI::App *app, AdditiveArguments &a) {
    file(app, "--w-query", a.w_query, "(h, Dq); without it --query is projected already, and h wide");
    file(app, "--w-key", a.w_key, "(h, Dk); likewise");
    file(app, "--b-query", a.b_query, "(h,), added to the projected query");
    file(app, "--b-key", a.b_key, "(h,), added to the projected key");
    file(app, "--w-score", a.w_score, "(h,); default all ones");
    app->add_option("--b-score", a.b_score, "Added to every score: a number, or a file with one")->type_name("F|FILE");
}

void add_layer(CLI::App *command, MultiHeadArguments &a) {
    command->add_option("--heads", a.heads, "Hq, heads of the query; must divide the rows of --w-query")
        ->type_name("N")
        ->required();
    command->add_option("--kv-heads", a.kv_heads, "Hkv, heads of key and value (default: as many)")->type_name("N");
    file(command, "--w-query", a.w_query, "(Hq * D, Eq)")->required();
    file(command, "--w-key", a.w_key, "(Hkv * D, Ek)")->required();
    file(command, "--w-value", a.w_value, "(Hkv * Dv, Ev)")->required();
    file(command, "--w-out", a.w_out, "(Eo, Hq * Dv)")->required();
    file(command, "--b-query", a.b_query, "(Hq * D,)");
    file(command, "--b-key", a.b_key, "(Hkv * D,)");
    file(command, "--b-value", a.b_value, "(Hkv * Dv,)");
    file(command, "--b-out", a.b_out, "(Eo,)");
}

void add_valid_lens_and_fill(CLI::App *command, Given &valid_lens, Given &fill) {
    file(command, "--valid-lens", valid_lens, "(B,) or (B, Sq) int32 or int64: only scores j < len take part");
    command
        ->add_option("--fill", fill,
                     "Masked scores are -inf, so that a row without keys is 0 (default); or -1e6, so that it "
                     "is uniform")
        ->type_name("zero|seed");
}

void add_packed_tensors(CLI::App *command, VariableLengthArguments &a) {
    file(command, "--query", a.attention.query, "(Tq, Hq, Dk), the sequences one after another")->required();
    file(command, "--key", a.attention.key, "(Tk, Hkv, Dk); Hq is a multiple of Hkv")->required();
    file(command, "--value", a.attention.value, "(Tk, Hkv, Dv)")->required();
    file(command, "--cu-seqlens-q", a.cu_seqlens_q, "(B + 1,) int32 or int64: where sequences begin and end, from 0")
        ->required();
    file(command, "--cu-seqlens-k", a.cu_seqlens_k, "(B + 1,), likewise of key and value")->required();
}

void add_packed_scores(CLI::App *command, VariableLengthArguments &a) {
    command->add_option("--score", a.score, "q . k (default), q . k / (|q| |k|), or -|q - k|^2 / 2, times --scale")
        ->type_name("dot|cosine|gaussian");
    add_scores(command, a.attention, "1 / sqrt(Dk), else 1");
}

}  // namespace attune::program
