// SPDX-License-Identifier: MIT
// attune run varlen, its gradients, paged, kv-append and merge: the parts of model serving.
#include "attune/paged.h"
#include "attune/varlen_backward.h"
#include "tools/calls/gradient.h"
#include "tools/error.h"
#include "tools/text.h"
#include <cstring>

namespace attune::program {
namespace {

CacheWhenFull parse_when_full(const Given &text) {
    if (!text || *text == "refuse") return CacheWhenFull::refuse;
    if (*text == "slide") return CacheWhenFull::slide;
    throw InputError("--when-full", "'" + *text + "' is not refuse or slide");
}

// An output of zeros: rows that the library does not write are 0 in a file.
void clear(Array &array) {
    if (array.data && array.bytes() > 0) std::memset(array.data.get(), 0, array.bytes());
}
Array zeroed(const char *argument, ElementType type, const Shape &shape) {
    Array array = output_array(argument, type, shape);
    clear(array);
    return array;
}

// The inputs and options of a packed batch, read from files.
class PackedBatch {
public:
    PackedBatch(const VariableLengthArguments &given, CommandFiles &files) : options(options_of(given.attention)) {
        const AttentionArguments &a = given.attention;
        options.score = score_of(given.score);
        files.input("--query", a.query, query, rows);
        files.input("--key", a.key, key, rows);
        files.input("--value", a.value, value, rows);
        files.input("--cu-seqlens-q", given.cu_seqlens_q, ends_q_, ends_, Role::integers);
        files.input("--cu-seqlens-k", given.cu_seqlens_k, ends_k_, ends_, Role::integers);
        if (a.offset && !options.offset) files.input("--offset", a.offset, offsets_, {1, 1, "(B,)"}, Role::integers);
        if (a.alibi && !options.alibi) files.input("--alibi", a.alibi, alibi, {1, 2, "(Hq,) or (B, Hq)"}, Role::single_floats);
        files.input("--sinks", a.sinks, sinks, {1, 1, "(Hq,)"}, Role::single_floats);
    }
    // After files.load().
    void add_arrays() {
        options.offsets = view_of(offsets_), options.alibi_slopes = view_of(alibi), options.sinks = view_of(sinks);
    }
    Status forward(Context &context, Array &out, const SdpaOptions &with_lse) const {
        return variable_length_attention(context, view_of(query), view_of(key), view_of(value), ends_q(), ends_k(),
                                         output_view(out), with_lse);
    }
    ConstView ends_q() const { return view_of(ends_q_); }
    ConstView ends_k() const { return view_of(ends_k_); }

    static constexpr Ranks rows{3, 3, "(T, H, D)"};
    SdpaOptions options;
    Array query, key, value, alibi, sinks;

private:
    static constexpr Ranks ends_{1, 1, "(B + 1,)"};
    Array ends_q_, ends_k_, offsets_;
};

}  // namespace

void run_variable_length(const VariableLengthArguments &given) {
    const AttentionArguments &a = given.attention;
    const ContextOptions resources = context_options(a.call);
    CommandFiles files(a.call);
    PackedBatch batch(given, files);
    files.output("--out", a.out);
    files.output("--lse", a.lse);
    files.load();
    batch.add_arrays();

    Context context(resources);
    check(context.status());
    const std::int64_t total = batch.query.shape[0], heads = batch.query.shape[1];
    Array out = zeroed("--out", files.type(), {total, heads, batch.value.shape[2]}), lse;
    if (a.lse) {
        lse = zeroed("--lse", files.sum_type(), {heads, total});
        batch.options.lse = output_view(lse);
    }
    check(batch.forward(context, out, batch.options));
    files.write("--out", out);
    if (a.lse) files.write("--lse", lse);
    files.commit();
}

void run_variable_length_backward(const VariableLengthBackwardArguments &given) {
    Gradient query{"--grad-query", given.grad_query}, key{"--grad-key", given.grad_key},
        value{"--grad-value", given.grad_value}, slopes{"--grad-slopes", given.grad_slopes},
        sinks{"--grad-sinks", given.grad_sinks};
    const std::initializer_list<Gradient *> gradients = {&query, &key, &value, &slopes, &sinks};
    if (given.in_out && !given.in_lse) throw InputError("--in-out", "needs --in-lse");
    if (given.in_lse && !given.in_out) throw InputError("--in-lse", "needs --in-out");
    const CallArguments &call = given.packed.attention.call;
    const ContextOptions resources = context_options(call);
    CommandFiles files(call);
    PackedBatch batch(given.packed, files);
    const Ranks sums{2, 2, "(Hq, Tq)"};
    Array grad_out, grad_lse, out, lse;
    files.input("--grad-out", given.grad_out, grad_out, PackedBatch::rows);
    files.input("--grad-lse", given.grad_lse, grad_lse, sums, Role::sums);
    files.input("--in-out", given.in_out, out, PackedBatch::rows);
    files.input("--in-lse", given.in_lse, lse, sums, Role::sums);
    name_outputs(files, gradients);
    files.load();
    batch.add_arrays();

    const ElementType type = files.type();
    const SdpaOptions &options = batch.options;
    const std::int64_t total = batch.query.shape[0], heads = batch.query.shape[1];
    SdpaGradients wanted;
    wanted.query = query.make("--query", true, type, batch.query.shape, 3);
    wanted.key = key.make("--key", true, type, batch.key.shape, 3);
    wanted.value = value.make("--value", true, type, batch.value.shape, 3);
    wanted.alibi_slopes = slopes.make("--alibi", options.alibi || batch.alibi.rank() > 0, ElementType::f32,
                                      options.alibi ? Shape{heads} : batch.alibi.shape, 2);
    wanted.sinks = sinks.make("--sinks", batch.sinks.rank() > 0, ElementType::f32, batch.sinks.shape, 1);
    for (Gradient *g : gradients) clear(g->array);

    Context context(resources);
    check(context.status());
    if (!given.in_out) {
        lse = zeroed("--grad-out", files.sum_type(), {heads, total});
        out = zeroed("--grad-out", type, {total, heads, batch.value.shape[2]});
        SdpaOptions forward = options;
        forward.lse = output_view(lse), forward.variant = {};
        check(batch.forward(context, out, forward));
    }
    const SdpaForward forward{view_of(out), view_of(lse), view_of(grad_out), view_of(grad_lse)};
    check(variable_length_attention_backward(context, view_of(batch.query), view_of(batch.key), view_of(batch.value),
                                             batch.ends_q(), batch.ends_k(), forward, wanted, options));
    write_all(files, gradients);
}

void run_paged(const PagedArguments &given) {
    const AttentionArguments &a = given.attention;
    const SdpaOptions read = options_of(a);
    PagedOptions options{.scale = read.scale, .softcap = read.softcap};
    options.alibi = read.alibi, options.causal = !given.not_causal, options.window = read.window;
    options.variant = read.variant;
    const ContextOptions resources = context_options(a.call);
    CommandFiles files(a.call);
    Array query, keys, values, ends, table, lens, indptr, bias, alibi, sinks, tree, positions, prefix_table, prefix_lens,
        prefix_of;
    const Ranks pages{4, 4, "(P, page, Hkv, D)"}, list{1, 1, "(B,)"}, of_group{1, 1, "(G,)"};
    files.input("--query", a.query, query, {3, 3, "(T, H, D)"});
    files.input("--key-pages", given.key_pages, keys, pages);
    files.input("--value-pages", given.value_pages, values, pages);
    files.input("--cu-seqlens-q", given.cu_seqlens_q, ends, {1, 1, "(B + 1,)"}, Role::integers);
    files.input("--block-table", given.block_table, table, {1, 2, "(B, N), or (N,) with --indptr"}, Role::integers);
    files.input("--lens", given.lens, lens, list, Role::integers);
    files.input("--indptr", given.indptr, indptr, {1, 1, "(B + 1,)"}, Role::integers);
    files.input("--distance-bias", given.distance_bias, bias, {2, 2, "(Hq, R)"});
    files.input("--tree-mask", given.tree_mask, tree, {3, 3, "(B, S, S)"}, Role::booleans);
    files.input("--positions", given.positions, positions, {2, 2, "(B, S)"}, Role::integers);
    files.input("--prefix-table", given.prefix_table, prefix_table, {2, 2, "(G, N)"}, Role::integers);
    files.input("--prefix-lens", given.prefix_lens, prefix_lens, of_group, Role::integers);
    files.input("--prefix-of", given.prefix_of, prefix_of, list, Role::integers);
    if (a.alibi && !options.alibi) files.input("--alibi", a.alibi, alibi, {1, 1, "(Hq,)"}, Role::single_floats);
    files.input("--sinks", a.sinks, sinks, {1, 1, "(Hq,)"}, Role::single_floats);
    files.output("--out", a.out);
    files.output("--lse", a.lse);
    files.load();

    options.indptr = view_of(indptr), options.distance_bias = view_of(bias), options.alibi_slopes = view_of(alibi);
    options.tree_mask = view_of(tree), options.positions = view_of(positions), options.sinks = view_of(sinks);
    options.prefix = {view_of(prefix_table), view_of(prefix_lens), view_of(prefix_of)};
    Context context(resources);
    check(context.status());
    const std::int64_t total = query.shape[0], heads = query.shape[1];
    Array out = zeroed("--out", files.type(), {total, heads, values.shape[3]}), lse;
    if (a.lse) {
        lse = zeroed("--lse", files.sum_type(), {heads, total});
        options.lse = output_view(lse);
    }
    constexpr int rank = 4;
    check(paged_attention(context, view_of(query), view_of(keys, rank), view_of(values, rank), view_of(ends), view_of(table),
                          view_of(lens), output_view(out), options));
    files.write("--out", out);
    if (a.lse) files.write("--lse", lse);
    files.commit();
}

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
