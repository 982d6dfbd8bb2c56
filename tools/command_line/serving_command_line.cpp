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

void add_steps(CLI::App *command, RowStepArguments &a, const std::string &of) {
    file(command, "--norm-weight", a.norm_weight, "RMS norm " + of + ": weights (D,) or (H, D)");
    command->add_option("--norm-eps", a.norm_eps, "Added to the mean of squares (default 1e-6)")->type_name("F");
    command->add_option("--rope-base", a.rope_base, "Rotary position embedding " + of + ", by angles position * F^(-2t / dim)")
        ->type_name("F");
    command->add_option("--rope-scaling", a.rope_scaling, "Positions are divided by it (default 1)")->type_name("F");
    file(command, "--cos", a.cos, "(positions, dim / 2), with --sin in place of --rope-base");
    file(command, "--sin", a.sin, "(positions, dim / 2)");
    command->add_option("--rope-dim", a.rope_dim, "Channels that are rotated (default all)")->type_name("N");
    command->add_option("--rope-offset", a.rope_offset, "The first of them (default 0)")->type_name("N");
    command->add_flag("--interleaved", a.interleaved, "Channels 2t and 2t + 1 are a pair (GPT-J), not t and t + dim / 2");
    file(command, "--positions", a.positions, "(T,) int32 or int64, of the rows, for RoPE; (B, S) of rows (B, H, S, D)");
    command->add_flag("--hadamard", a.hadamard, "Hadamard rotation " + of + ", which is its own inverse");
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
         "(P, page, Hkv, Dk), a page is a multiple of 16 rows, or 1; or int8, or uint8 (P, page, Hkv, Dk / 2): two channels a "
         "byte")
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
    file(paged, "--weight-sums", a->weight_sums,
         "Output (B, Hq, Sk): sums of the weights of each key over the queries of a sequence; 0 behind its rows");
    paged->add_flag("--group-sums", a->group_sums, "--weight-sums also over the query heads of a key head, (B, Hkv, Sk)");
    paged->add_flag("--not-causal", a->not_causal, "New rows see the new rows after them, too");
    file(paged, "--distance-bias", a->distance_bias, "(Hq, R): added to scores of keys 0, 1, ... rows before the query");
    file(paged, "--tree-mask", a->tree_mask, "(B, S, S) bool: which new rows see which");
    file(paged, "--positions", a->positions, "(B, S): positions of new rows, for --window beside --tree-mask");
    file(paged, "--prefix-table", a->prefix_table, "(G, N): pages of rows that several sequences begin with");
    file(paged, "--prefix-lens", a->prefix_lens, "(G,): rows of these, multiples of 16");
    file(paged, "--prefix-of", a->prefix_of, "(B,): the prefix of each sequence, -1: none");
    add_scores(paged, attention, "1 / sqrt(Dk)");
    add_invariant(paged, attention);
    for (const char *option : {"--causal", "--offset", "--dropout", "--seed", "--dropout-offset", "--dropout-first-query",
                               "--dropout-first-key", "--dropout-first-head", "--dropout-heads"})
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

void add_append(CLI::App &run) {
    auto [append, a] =
        add_command(run, "append", "Rows of keys and values into pages, normalised, rotated and quantised on the way",
                    "Example:\n  attune run append --key k.npy --value v.npy --slots slots.npy --pool 64,16 --store int8 "
                    "--rope-base 10000 --positions at.npy --key-out kp.npy --key-scale-out ks.npy --value-out vp.npy "
                    "--value-scale-out vs.npy",
                    run_append);
    file(append, "--key", a->key, "(T, Hkv, Dk), the rows to append")->required();
    file(append, "--value", a->value, "(T, Hkv, Dv)")->required();
    file(append, "--slots", a->slots,
         "(T,) int64 or int32: row t goes to page slots[t] / page, row slots[t] % page; -1: nowhere")
        ->required();
    file(append, "--key-pages", a->key_pages,
         "(P, page, Hkv, Dk), a page is a multiple of 16 rows, or 1; or int8, or uint8 (P, page, Hkv, Dk / 2): two channels a "
         "byte");
    file(append, "--value-pages", a->value_pages, "(P, page, Hkv, Dv), likewise");
    add_scales(append, "--key-scale", a->key_scale, "--key-minimum", a->key_minimum);
    add_scales(append, "--value-scale", a->value_scale, "--value-minimum", a->value_minimum);
    append->add_option("--pool", a->pool, "In place of pages: new ones of zeros, so many of so many rows")
        ->type_name("PAGES,ROWS");
    append
        ->add_option("--store", a->store,
                     "Rows of --pool: numbers as in --key (default), int8 with a scale of f32 or f16 for each row, or 4 bits "
                     "with a scale and a minimum for so many channels")
        ->type_name("same|int8|int8-f16|int4:32|int4:64|int4:all");
    add_steps(append, a->steps, "of keys");
    append->add_flag("--rotate-values", a->rotate_values,
                     "Hadamard rotation of values; that of the result of attention undoes it");
    file(append, "--key-out", a->key_out, "Output: the pages of keys afterwards")->required();
    file(append, "--key-scale-out", a->key_scale_out, "Output: their scales, where each row has its own");
    file(append, "--key-minimum-out", a->key_minimum_out, "Output: their minima, of 4 bits");
    file(append, "--value-out", a->value_out, "Output: the pages of values afterwards")->required();
    file(append, "--value-scale-out", a->value_scale_out, "Output: their scales, likewise");
    file(append, "--value-minimum-out", a->value_minimum_out, "Output: their minima, likewise");
    add_call(append, a->call);
    append->remove_option(append->get_option("--variant"));
}

void add_rope(CLI::App &run) {
    auto [rope, a] =
        add_command(run, "rope", "RMS norm, rotary position embedding and Hadamard rotation of rows",
                    "Example:\n  attune run rope --x q.npy --positions at.npy --rope-base 10000 --out qr.npy", run_rope);
    file(rope, "--x", a->x, "(T, H, D) or (B, H, S, D), queries or keys")->required();
    file(rope, "--out", a->out, "Output of the same shape and type")->required();
    add_steps(rope, a->steps, "of rows");
    add_call(rope, a->call);
    rope->remove_option(rope->get_option("--variant"));
}

void add_merge(CLI::App &run) {
    auto [merge, a] =
        add_command(run, "merge", "Merges attentions of the same queries over different keys",
                    "Examples:\n  attune run merge --part o1.npy l1.npy --part o2.npy l2.npy --part o3.npy l3.npy --out o.npy\n"
                    "  attune run merge --out-a o1.npy --lse-a l1.npy --out-b o2.npy --lse-b l2.npy --out o.npy",
                    run_merge);
    merge
        ->add_option("--part", a->parts,
                     "A part, as often as wanted: out (B, Hq, Sq, Dv), (Hq, Sq, Dv) or (Sq, Dv), and what --lse of the same "
                     "attention wrote, which lacks Dv")
        ->type_name("OUT LSE");
    file(merge, "--out-a", a->out_a, "Two parts by other names, before those of --part: out of the first");
    file(merge, "--lse-a", a->lse_a, "Its lse");
    file(merge, "--out-b", a->out_b, "The second part");
    file(merge, "--lse-b", a->lse_b, "Its lse");
    file(merge, "--out", a->out, "Output: attention over the keys of all")->required();
    file(merge, "--lse", a->lse, "Output: its log of the sum of exponentials");
    add_call(merge, a->call);
    merge->remove_option(merge->get_option("--variant"));
}

}  // namespace

void add_serving(CLI::App &run) {
    add_paged(run);
    add_append(run);
    add_rope(run);
    add_variable_length(run);
    add_kv_append(run);
    add_merge(run);
}

}  // namespace attune::program
