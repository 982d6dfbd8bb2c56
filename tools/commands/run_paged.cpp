// SPDX-License-Identifier: MIT
// attune run paged, append and rope: caches in pages, and the steps of rows before they are stored.
#include "attune/append.h"
#include "attune/paged.h"
#include "tools/calls/attention.h"
#include "tools/error.h"
#include "tools/text.h"
#include <algorithm>

namespace attune::program {
namespace {

// Options of keys or of values.
struct PoolNames {
    const char *pages, *scale, *minimum, *out, *scale_out, *minimum_out;
};
constexpr PoolNames key_names = {"--key-pages", "--key-scale",     "--key-minimum",
                                 "--key-out",   "--key-scale-out", "--key-minimum-out"};
constexpr PoolNames value_names = {"--value-pages", "--value-scale",     "--value-minimum",
                                   "--value-out",   "--value-scale-out", "--value-minimum-out"};

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
    Pages output_pages() { return {output_view(rows, rank), output_view(scale, rank), output_view(minimum, rank)}; }
    bool has_scales_of_rows() const { return scale.rank() > 2; }

private:
    static constexpr int rank = 4;
};

// Steps of rows, read from files.
class Steps {
public:
    Steps(const RowStepArguments &given, CommandFiles &files) {
        if (given.norm_eps && !given.norm_weight) throw InputError("--norm-eps", "is only for --norm-weight");
        if (given.norm_eps) steps_.norm_eps = number_of("--norm-eps", *given.norm_eps);
        Rope &rope = steps_.rope;
        if (given.rope_base) rope.base = number_of("--rope-base", *given.rope_base);
        if (given.rope_base && rope.base == 0) throw InputError("--rope-base", "must be more than 1, got 0");
        if (given.rope_scaling) rope.scaling = number_of("--rope-scaling", *given.rope_scaling);
        if (given.rope_dim) rope.dim = whole_number_of("--rope-dim", *given.rope_dim);
        if (given.rope_offset) rope.offset = whole_number_of("--rope-offset", *given.rope_offset);
        if (given.interleaved && !given.rope_base && !given.cos && !given.sin)
            throw InputError("--interleaved", "is only for RoPE: --rope-base, or --cos and --sin");
        rope.pairs = given.interleaved ? RopePairs::interleaved : RopePairs::halves;
        steps_.hadamard = given.hadamard;
        const Ranks table{2, 2, "(positions, dim / 2)"};
        files.input("--norm-weight", given.norm_weight, norm_weight_, {1, 2, "(D,) or (H, D)"});
        files.input("--cos", given.cos, cos_, table, Role::single_floats);
        files.input("--sin", given.sin, sin_, table, Role::single_floats);
        files.input("--positions", given.positions, positions_, {1, 2, "(T,), or (B, S) for rows (B, H, S, D)"},
                    Role::integers);
    }
    // After files.load().
    RowSteps steps() const {
        RowSteps steps = steps_;
        steps.norm_weight = view_of(norm_weight_), steps.rope.cos = view_of(cos_), steps.rope.sin = view_of(sin_);
        return steps;
    }
    ConstView positions() const { return view_of(positions_); }

private:
    RowSteps steps_;
    Array norm_weight_, cos_, sin_, positions_;
};

// Storage of the rows of a pool that the command makes.
struct Store {
    enum class Kind { as_given, int8, int8_f16, int4 } kind = Kind::as_given;
    std::int64_t group = 0;  // channels of int4 that share a scale; 0: all
};
Store store_of(const Given &text) {
    using Kind = Store::Kind;
    if (!text || *text == "same") return {};
    if (*text == "int8") return {Kind::int8};
    if (*text == "int8-f16") return {Kind::int8_f16};
    if (*text == "int4:all") return {Kind::int4, 0};
    if (*text == "int4:32") return {Kind::int4, 32};
    if (*text == "int4:64") return {Kind::int4, 64};
    throw InputError("--store", "'" + *text + "' is not same, int8, int8-f16, int4:32, int4:64 or int4:all");
}

// Number of pages of a pool, and of the rows of a page.
std::pair<std::int64_t, std::int64_t> pool_of(const std::string &text) {
    const std::size_t comma = text.find(',');
    if (comma != std::string::npos) {
        const auto pages = natural_in(std::string_view(text).substr(0, comma)),
                   rows = natural_in(std::string_view(text).substr(comma + 1));
        constexpr std::uint64_t most = 1u << 31;
        if (pages && rows && *pages < most && *rows < most)
            return {static_cast<std::int64_t>(*pages), static_cast<std::int64_t>(*rows)};
    }
    throw InputError("--pool", "'" + text + "' is not two whole numbers PAGES,ROWS");
}

// Makes pages of zeros for rows (T, Hkv, D). A scale that is given is the caller's own.
void make_pool(const AppendArguments &given, const Store &store, const Array &x, const PoolNames &names, PoolArrays &pool) {
    const auto [pages, rows] = pool_of(*given.pool);
    const std::int64_t heads = x.shape[1], channels = x.shape[2];
    using Kind = Store::Kind;
    const auto made = [&, pages = pages, rows = rows](ElementType type, Shape more) {
        Shape shape = {pages, rows, heads};
        shape.insert(shape.end(), more.begin(), more.end());
        return zeroed_array("--pool", type, shape);
    };
    switch (store.kind) {
    case Kind::as_given: pool.rows = made(x.type, {channels}); break;
    case Kind::int8:
    case Kind::int8_f16:
        pool.rows = made(ElementType::i8, {channels});
        if (pool.scale.rank() > 2) throw InputError(names.scale, "is made with --pool, but for (Hkv, D) and (1,)");
        if (pool.scale.rank() == 0) pool.scale = made(store.kind == Kind::int8 ? ElementType::f32 : ElementType::f16, {});
        break;
    case Kind::int4: {
        const std::int64_t group = store.group == 0 ? channels : store.group;
        if (channels % 2 != 0 || channels % group != 0 || channels == 0)
            throw InputError("--store", *given.store + " does not divide the " + std::to_string(channels) + " channels of " +
                                            (&names == &key_names ? "--key" : "--value"));
        pool.rows = made(ElementType::u8, {channels / 2});
        for (auto [argument, array] : {std::pair(names.scale, &pool.scale), {names.minimum, &pool.minimum}}) {
            if (array->rank() > 0) throw InputError(argument, "is made with --pool and --store " + *given.store);
            *array = made(ElementType::f16, {channels / group});
        }
    }
    }
}

// An output that the append writes has a file, and no other has.
void check_output(const char *argument, const Given &path, bool written) {
    if (written && !path) throw InputError(argument, "is required: the append writes it");
    if (!written && path) throw InputError(argument, "is only for pages that hold it for each row");
}

// The most rows of a sequence, those of its prefix among them.
std::int64_t most_rows(const ConstView &lens, const SharedPrefix &prefix) {
    const auto at = [](const ConstView &v, std::int64_t n) { return static_cast<const std::int32_t *>(v.data)[n]; };
    std::int64_t most = 0;
    for (std::int64_t b = 0; b < lens.extent[0]; b++) {
        const std::int64_t g = prefix.of.given() && b < prefix.of.extent[0] ? at(prefix.of, b) : -1;
        const bool known = g >= 0 && prefix.lens.given() && g < prefix.lens.extent[0];  // else the library says so
        most = std::max(most, at(lens, b) + (known ? std::int64_t(at(prefix.lens, g)) : 0));
    }
    return most;
}

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
    files.output("--weight-sums", given.weight_sums);
    if (given.group_sums && !given.weight_sums) throw InputError("--group-sums", "is only for --weight-sums");
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
    Array sums;
    if (given.weight_sums) {
        const std::int64_t of_sums = given.group_sums ? keys.rows.shape[2] : heads;
        sums =
            zeroed_array("--weight-sums", files.sum_type(), {lens.shape[0], of_sums, most_rows(view_of(lens), options.prefix)});
        options.weight_sums = output_view(sums);
    }
    check(paged_attention(context, view_of(query), keys.pages(), values.pages(), view_of(ends), view_of(table), view_of(lens),
                          output_view(out), options));
    files.write("--out", out);
    if (a.lse) files.write("--lse", lse);
    if (given.weight_sums) files.write("--weight-sums", sums);
    files.commit();
}

void run_rope(const RopeArguments &given) {
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array x;
    files.input("--x", given.x, x, {3, 4, "(T, H, D) or (B, H, S, D)"});
    const Steps steps(given.steps, files);
    files.output("--out", given.out);
    files.load();
    Context context(resources);
    check(context.status());
    Array out = output_array("--out", files.type(), x.shape);
    check(transform_rows(context, view_of(x), steps.positions(), output_view(out), steps.steps()));
    files.write("--out", out);
    files.commit();
}

void run_append(const AppendArguments &given) {
    const ContextOptions resources = context_options(given.call);
    const Store store = store_of(given.store);
    if (given.store && !given.pool) throw InputError("--store", "is only for --pool");
    for (auto [argument, pages] : {std::pair(key_names.pages, &given.key_pages), {value_names.pages, &given.value_pages}}) {
        if (given.pool && *pages) throw InputError("--pool", std::string("is given beside ") + argument);
        if (!given.pool && !*pages) throw InputError(argument, "is required, or --pool");
    }
    CommandFiles files(given.call);
    Array key, value, slots;
    PoolArrays keys, values;
    const Ranks rows{3, 3, "(T, Hkv, D)"};
    files.input("--key", given.key, key, rows);
    files.input("--value", given.value, value, rows);
    files.input("--slots", given.slots, slots, {1, 1, "(T,)"}, Role::slots);
    keys.name_inputs(files, key_names, given.key_pages, given.key_scale, given.key_minimum);
    values.name_inputs(files, value_names, given.value_pages, given.value_scale, given.value_minimum);
    const Steps steps(given.steps, files);
    struct Side {
        const PoolNames &names;
        const Array &x;
        PoolArrays &pool;
        const Given &rows_out, &scale_out, &minimum_out;
    };
    const Side sides[] = {{key_names, key, keys, given.key_out, given.key_scale_out, given.key_minimum_out},
                          {value_names, value, values, given.value_out, given.value_scale_out, given.value_minimum_out}};
    for (const Side &s : sides) {
        files.output(s.names.out, s.rows_out);
        files.output(s.names.scale_out, s.scale_out);
        files.output(s.names.minimum_out, s.minimum_out);
    }
    files.load();
    if (given.pool)
        for (const Side &s : sides) make_pool(given, store, s.x, s.names, s.pool);
    for (const Side &s : sides) {
        check_output(s.names.scale_out, s.scale_out, s.pool.has_scales_of_rows());
        check_output(s.names.minimum_out, s.minimum_out, s.pool.minimum.rank() > 0);
    }

    Context context(resources);
    check(context.status());
    AppendOptions options{.key_steps = steps.steps(), .positions = steps.positions()};
    options.rotate_values = given.rotate_values;
    check(paged_append(context, view_of(key), view_of(value), view_of(slots), keys.output_pages(), values.output_pages(),
                       options));
    for (const Side &s : sides) {
        files.write(s.names.out, s.pool.rows);
        if (s.scale_out) files.write(s.names.scale_out, s.pool.scale);
        if (s.minimum_out) files.write(s.names.minimum_out, s.pool.minimum);
    }
    files.commit();
}

}  // namespace attune::program
