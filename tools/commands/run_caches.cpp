// SPDX-License-Identifier: MIT
// attune run kv-append and merge.
#include "attune/kv_cache.h"
#include "attune/merge.h"
#include "tools/calls/library_call.h"
#include "tools/error.h"
#include "tools/files/command_files.h"

namespace attune::program {
namespace {

CacheWhenFull parse_when_full(const Given &text) {
    if (!text || *text == "refuse") return CacheWhenFull::refuse;
    if (*text == "slide") return CacheWhenFull::slide;
    throw InputError("--when-full", "'" + *text + "' is not refuse or slide");
}

}  // namespace

void run_kv_append(const KvAppendArguments &given) {
    KvAppendOptions options;
    options.when_full = parse_when_full(given.when_full);
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array key, value, key_cache, value_cache, cache_lens, new_lens;
    const Ranks rows{4, 4, "(B, Hkv, S, D)"}, cache{4, 4, "(B, Hkv, C, D)"}, lens{1, 1, "(B,)"};
    files.input("--key", given.key, key, rows);
    files.input("--value", given.value, value, rows);
    files.input("--key-cache", given.key_cache, key_cache, cache);
    files.input("--value-cache", given.value_cache, value_cache, cache);
    files.input("--cache-lens", given.cache_lens, cache_lens, lens, Role::integers);
    files.input("--new-lens", given.new_lens, new_lens, lens, Role::integers);
    files.output("--key-out", given.key_out);
    files.output("--value-out", given.value_out);
    files.load();
    options.new_lens = view_of(new_lens);
    Context context(resources);
    check(context.status());
    constexpr int rank = 4;
    check(kv_append(context, view_of(key, rank), view_of(value, rank), view_of(cache_lens), output_view(key_cache, rank),
                    output_view(value_cache, rank), options));
    files.write("--key-out", key_cache);
    files.write("--value-out", value_cache);
    files.commit();
}

void run_merge(const MergeArguments &given) {
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array out_a, lse_a, out_b, lse_b;
    const Ranks rows{2, max_rank, "(B, Hq, Sq, Dv), (Hq, Sq, Dv) or (Sq, Dv)"},
        sums{1, max_rank - 1, "(B, Hq, Sq), (Hq, Sq) or (Sq,)"};
    files.input("--out-a", given.out_a, out_a, rows);
    files.input("--lse-a", given.lse_a, lse_a, sums, Role::sums);
    files.input("--out-b", given.out_b, out_b, rows);
    files.input("--lse-b", given.lse_b, lse_b, sums, Role::sums);
    files.output("--out", given.out);
    files.output("--lse", given.lse);
    files.load();
    Context context(resources);
    check(context.status());
    Array out = output_array("--out", files.type(), out_a.shape), lse;
    if (given.lse) lse = output_array("--lse", files.sum_type(), lse_a.shape);
    check(merge_attention(context, view_of(out_a), view_of(lse_a), view_of(out_b), view_of(lse_b), output_view(out),
                          output_view(lse)));
    files.write("--out", out);
    if (given.lse) files.write("--lse", lse);
    files.commit();
}

}  // namespace attune::program
