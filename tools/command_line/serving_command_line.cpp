// SPDX-License-Identifier: MIT
// Commands of `attune run` for serving: packed batches, caches, pages and merges.
#include "tools/command_line/command_line_parts.h"

namespace attune::program {
namespace {

// Scales and minima of quantised pages.
void add_scales(CLI::App *command, const char *scale_name, Given &scale, const char *minimum_name, Given &minimum) {
    file(command, scale_name, scale,
         "Of int8: (P, page, Hkv) float32 or float16, or (Hkv, D) or (1,) float32; of uint8: (P, page, Hkv, G) float16, of G "
         "groups of channels");
    file(command, minimum_name, minimum, "Of uint8: (P, page, Hkv, G) float16");
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
    add_invariant(varlen, attention);
}

void add_paged(CLI::App &run) {
    auto [paged, a] =
        add_command(run, "paged", "Attention over caches in pages: prompts, chunks, steps and trees of guesses in one call",
                    "Example:\n  attune run paged --query q.npy --key-pages k.npy --value-pages v.npy --cu-seqlens-q cq.npy "
                    "--block-table table.npy --lens lens.npy --out o.npy",
                    run_paged);
    AttentionArguments &attention = a->attention;
    file(paged, "--query", attention.query, "(Tq, Hq, Dk), the new rows of the sequences, one after another")->required();
    file(paged, "--key-pages", a->key_pages,
         "(P, page, Hkv, Dk), a page is a multiple of 16 rows; or int8, or uint8 (P, page, Hkv, Dk / 2): two channels a byte")
        ->required();
    file(paged, "--value-pages", a->value_pages, "(P, page, Hkv, Dv), likewise")->required();
    add_scales(paged, "--key-scale", a->key_scale, "--key-minimum", a->key_minimum);
    add_scales(paged, "--value-scale", a->value_scale, "--value-minimum", a->value_minimum);
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
    add_invariant(paged, attention);
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

void add_serving(CLI::App &run) {
    add_paged(run);
    add_variable_length(run);
    add_kv_append(run);
    add_merge(run);
}

}  // namespace attune::program
