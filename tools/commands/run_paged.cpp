// SPDX-License-Identifier: MIT
// attune run paged: attention over caches in pages.
#include "attune/paged.h"
#include "tools/calls/attention.h"

namespace attune::program {
namespace {

// Options of keys or of values.
struct PoolNames {
    const char *pages, *scale, *minimum;
};
constexpr PoolNames key_names = {"--key-pages", "--key-scale", "--key-minimum"};
constexpr PoolNames value_names = {"--value-pages", "--value-scale", "--value-minimum"};

// Pages of a pool, with the scales and minima of quantised rows.
struct PoolArrays {
    Array rows, scale, minimum;

    void name_inputs(CommandFiles &files, const PoolNames &names, const Given &pages, const Given &scales,
                     const Given &minima) {
        const char *const shapes = "(P, page, Hkv, G) for uint8, or (P, page, Hkv), (Hkv, D) or (1,) for int8";
        files.input(names.pages, pages, rows, {4, 4, "(P, page, Hkv, D)"}, Role::pages);
        files.input(names.scale, scales, scale, {1, 4, shapes}, Role::scales);
        files.input(names.minimum, minima, minimum, {4, 4, "(P, page, Hkv, G)"}, Role::scales);
    }
    std::int64_t channels() const { return rows.shape[3] * (rows.type == ElementType::u8 ? 2 : 1); }
    ConstPages pages() const { return {view_of(rows, rank), view_of(scale, rank), view_of(minimum, rank)}; }

private:
    static constexpr int rank = 4;
};

}  // namespace

void run_paged(const PagedArguments &given) {
    const AttentionArguments &a = given.attention;
    const SdpaOptions read = options_of(a);
    PagedOptions options{.scale = read.scale, .softcap = read.softcap};
    options.alibi = read.alibi, options.causal = !given.not_causal, options.window = read.window;
    options.invariant = read.invariant, options.variant = read.variant;
    const ContextOptions resources = context_options(a.call);
    CommandFiles files(a.call);
    Array query, ends, table, lens, indptr, bias, alibi, sinks, tree, positions, prefix_table, prefix_lens, prefix_of;
    PoolArrays keys, values;
    const Ranks list{1, 1, "(B,)"}, of_group{1, 1, "(G,)"};
    files.input("--query", a.query, query, {3, 3, "(T, H, D)"});
    keys.name_inputs(files, key_names, given.key_pages, given.key_scale, given.key_minimum);
    values.name_inputs(files, value_names, given.value_pages, given.value_scale, given.value_minimum);
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
    Array out = zeroed_array("--out", files.type(), {total, heads, values.channels()}), lse;
    if (a.lse) {
        lse = zeroed_array("--lse", files.sum_type(), {heads, total});
        options.lse = output_view(lse);
    }
    check(paged_attention(context, view_of(query), keys.pages(), values.pages(), view_of(ends), view_of(table), view_of(lens),
                          output_view(out), options));
    files.write("--out", out);
    if (a.lse) files.write("--lse", lse);
    files.commit();
}

}  // namespace attune::program
