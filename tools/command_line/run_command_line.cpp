// SPDX-License-Identifier: MIT
// Commands of `attune run` and their options; those for gradients are in backward_command_line.cpp.
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

void add_variable_length(CLI::App &run) {
    auto [varlen, a] =
        add_command(run, "varlen", "Attention over a packed batch: sequences one after another, without padding",
                    "Example:\n  attune run varlen --query q.npy --key k.npy --value v.npy --cu-seqlens-q cq.npy "
                    "--cu-seqlens-k ck.npy --out o.npy --causal bottom-right",
                    run_variable_length);
    add_packed_tensors(varlen, *a);
    AttentionArguments &attention = a->attention;
    file(varlen, "--out", attention.out, "Output (Tq, Hq, Dv); 0 in rows beyond the last sequence")->required();
    file(varlen, "--lse", attention.lse, "Output (Hq, Tq): log of the sum of exponentials of the scores; 0 in those rows");
    add_packed_scores(varlen, *a);
}

void add_paged(CLI::App &run) {
    auto [paged, a] =
        add_command(run, "paged", "Attention over caches in pages: prompts, chunks, steps and trees of guesses in one call",
                    "Example:\n  attune run paged --query q.npy --key-pages k.npy --value-pages v.npy --cu-seqlens-q cq.npy "
                    "--block-table table.npy --lens lens.npy --out o.npy",
                    run_paged);
    AttentionArguments &attention = a->attention;
    file(paged, "--query", attention.query, "(Tq, Hq, Dk), the new rows of the sequences, one after another")->required();
    file(paged, "--key-pages", a->key_pages, "(P, page, Hkv, Dk); a page is a multiple of 16 rows")->required();
    file(paged, "--value-pages", a->value_pages, "(P, page, Hkv, Dv)")->required();
    file(paged, "--cu-seqlens-q", a->cu_seqlens_q, "(B + 1,) int32 or int64: where sequences begin and end, from 0")
        ->required();
    file(paged, "--block-table", a->block_table, "(B, N) int32 or int64: pages of each sequence; or (N,) with --indptr")
        ->required();
    file(paged, "--lens", a->lens, "(B,): rows that each sequence holds, its new ones among them")->required();
    file(paged, "--indptr", a->indptr, "(B + 1,): where the pages of each sequence begin and end in the list");
    file(paged, "--out", attention.out, "Output (Tq, Hq, Dv); 0 in rows beyond the last sequence")->required();
    file(paged, "--lse", attention.lse, "Output (Hq, Tq): log of the sum of exponentials of the scores; 0 in those rows");
    paged->add_flag("--not-causal", a->not_causal, "New rows see the new rows after them, too");
    file(paged, "--distance-bias", a->distance_bias, "(Hq, R): added to scores of keys 0, 1, ... rows before the query");
    file(paged, "--tree-mask", a->tree_mask, "(B, S, S) bool: which new rows see which");
    file(paged, "--positions", a->positions, "(B, S): positions of new rows, for --window beside --tree-mask");
    file(paged, "--prefix-table", a->prefix_table, "(G, N): pages of rows that several sequences begin with");
    file(paged, "--prefix-lens", a->prefix_lens, "(G,): rows of these, multiples of 16");
    file(paged, "--prefix-of", a->prefix_of, "(B,): the prefix of each sequence, -1: none");
    add_scores(paged, attention, "1 / sqrt(Dk)");
    for (const char *option : {"--causal", "--offset", "--dropout", "--seed", "--dropout-offset"})
        paged->remove_option(paged->get_option(option));
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
    add_additive(*run);
    add_multi_head(*run);
    add_paged(*run);
    add_variable_length(*run);
    add_kv_append(*run);
    add_merge(*run);
    add_masked_softmax(*run);
    add_products(*run);
    add_dropout_mask(*run);
    add_backward(*run);
}

}  // namespace attune::program
