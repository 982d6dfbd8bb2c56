// SPDX-License-Identifier: MIT
#include "serving/paged_call.h"
#include "serving/quantised_rows.h"
#include "serving/weight_sums.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace attune {
namespace {

constexpr std::int64_t runs_read_ahead = 1024;  // runs of keys that a kernel may look up beyond the last, to prefetch rows

Status check_widths(const ConstView &query, const View &out, const PagedRows &keys, const PagedRows &values) {
    const ExtentMatch matches[] = {{"key_pages", "head size (last extent)", keys.channels, "query", query.extent[2]},
                                   {"out", "number of rows (first extent)", out.extent[0], "query", query.extent[0]},
                                   {"out", "number of heads", out.extent[1], "query", query.extent[1]},
                                   {"out", "head size (last extent)", out.extent[2], "value_pages", values.channels}};
    if (Status s = check_extents(matches); !s.ok()) return s;
    const std::int64_t heads = keys.rows.extent[1];
    if (heads == 0 ? query.extent[1] == 0 : query.extent[1] % heads == 0) return {};
    return invalid("key_pages", "number of heads is " + text(heads) + ", which must divide the " + text(query.extent[1]) +
                                    " heads of query");
}

// Rows for checks of sizes, as numbers where they are quantised; `more` has the memory of those.
ConstView as_numbers(const PagedRows &r, DType type) {
    if (!is_quantised(r.rows)) return r.rows;
    return typed_view(r.rows.data, type, {1, r.rows.extent[1], r.rows.extent[2], r.channels}, {0, 0, 0, 1});
}

// The pages of a sequence, or of a prefix: a row of a table, or a part of a list.
struct PageList {
    std::string_view name;
    ConstView pages;  // int32 (N)
    std::int64_t number;
};

Status check_page_list(const PageList &list, std::int64_t rows, const PagedRows &pool) {
    const std::int64_t used = ceil_div(rows, pool.page);
    if (used > list.pages.extent[0])
        return invalid(list.name, "sequence " + text(list.number) + " holds " + text(rows) + " rows, " + text(used) +
                                      " pages of " + text(pool.page) + ", and the table has " + text(list.pages.extent[0]));
    for (std::int64_t n = 0; n < used; n++)
        if (const std::int32_t page = int_at(list.pages, n); page < 0 || page >= pool.pages)
            return invalid(list.name, "page " + text(n) + " of sequence " + text(list.number) + " is " + text(page) +
                                          ", must be from 0 to " + text(pool.pages - 1) + " for the " + text(rows) +
                                          " rows that it holds");
    return {};
}

PageList pages_of(const PagedCall &p, const PagedOptions &o, std::int64_t b) {
    if (!o.indptr.given()) return {"block_table", row_of(p.block_table, b), b};
    const std::int64_t first = int_at(o.indptr, b);
    return {"block_table", part_of(p.block_table, 0, first, int_at(o.indptr, b + 1) - first), b};
}

Status check_block_table(const PagedCall &p, const PagedOptions &o, std::int64_t batch) {
    if (!o.indptr.given()) return check_table("block_table", p.block_table, batch);
    if (Status s = check_list("block_table", p.block_table, "N, with indptr"); !s.ok()) return s;
    if (Status s = check_ends("indptr", o.indptr, "block_table", p.block_table.extent[0]); !s.ok()) return s;
    return check_extent("indptr", "number of entries", o.indptr.extent[0], "cu_seqlens_q", batch + 1);
}

Status check_prefix(const PagedCall &p, const SharedPrefix &prefix, std::int64_t batch) {
    if (!prefix.of.given() && !prefix.lens.given() && !prefix.block_table.given()) return {};
    if (Status s = check_list("prefix.lens", prefix.lens, "G"); !s.ok()) return s;
    const std::int64_t count = prefix.lens.extent[0];
    if (Status s = check_table("prefix.block_table", prefix.block_table, count); !s.ok()) return s;
    for (std::int64_t g = 0; g < count; g++) {
        const std::int32_t rows = int_at(prefix.lens, g);
        if (rows < 0 || rows % keys_of_run != 0)
            return invalid("prefix.lens", "entry (" + text(g) + ") must be a multiple of 16 from 0 on, got " + text(rows));
        const PageList list{"prefix.block_table", row_of(prefix.block_table, g), g};
        if (Status s = check_page_list(list, rows, p.keys); !s.ok()) return s;
    }
    if (Status s = check_list("prefix.of", prefix.of, "B"); !s.ok()) return s;
    if (Status s = check_extent("prefix.of", "number of entries", prefix.of.extent[0], "lens", batch); !s.ok()) return s;
    for (std::int64_t b = 0; b < batch; b++)
        if (const std::int32_t g = int_at(prefix.of, b); g < -1 || g >= count)
            return invalid("prefix.of",
                           "entry (" + text(b) + ") is " + text(g) + ", must be from -1 (none) to " + text(count - 1));
    return {};
}

std::int64_t prefix_of(const PagedOptions &o, std::int64_t b) { return o.prefix.of.given() ? int_at(o.prefix.of, b) : -1; }
std::int64_t prefix_rows(const PagedOptions &o, std::int64_t b) {
    const std::int64_t g = prefix_of(o, b);
    return g < 0 ? 0 : int_at(o.prefix.lens, g);
}

Status check_tree(const PagedOptions &o, const PagedCall &p, std::int64_t batch) {
    if (!o.tree_mask.given()) {
        if (o.positions.given()) return invalid("positions", "given without tree_mask");
        return {};
    }
    const ConstView &tree = o.tree_mask;
    if (tree.rank != 3) return invalid("tree_mask", "rank must be 3 (B, S, S), got " + text(tree.rank));
    if (tree.dtype != DType::boolean) return invalid("tree_mask", std::string("type must be bool, got ") + name_of(tree.dtype));
    if (Status s = check_memory("tree_mask", tree); !s.ok()) return s;
    const ExtentMatch square[] = {{"tree_mask", "batch (first extent)", tree.extent[0], "cu_seqlens_q", batch},
                                  {"tree_mask", "last extent", tree.extent[2], "tree_mask's rows", tree.extent[1]}};
    if (Status s = check_extents(square); !s.ok()) return s;
    if (o.alibi || o.alibi_slopes.given()) return unsupported("alibi", "is not taken beside tree_mask");
    if (o.distance_bias.given()) return unsupported("distance_bias", "is not taken beside tree_mask");
    if (o.positions.given()) {
        if (o.positions.rank != 2) return invalid("positions", "rank must be 2 (B, S), got " + text(o.positions.rank));
        if (Status s = check_ints("positions", o.positions); !s.ok()) return s;
        const ExtentMatch matches[] = {{"positions", "batch (first extent)", o.positions.extent[0], "tree_mask", batch},
                                       {"positions", "last extent", o.positions.extent[1], "tree_mask", tree.extent[1]}};
        if (Status s = check_extents(matches); !s.ok()) return s;
    }
    for (std::int64_t b = 0; b < batch; b++) {
        const std::int64_t queries = int_at(p.query_ends, b + 1) - int_at(p.query_ends, b);
        if (queries > tree.extent[1])
            return invalid("tree_mask",
                           "has " + text(tree.extent[1]) + " rows, sequence " + text(b) + " has " + text(queries) + " queries");
        for (std::int64_t i = 0; i < queries; i++)
            for (std::int64_t j = i; j < queries; j++) {
                const bool sees =
                    static_cast<const bool *>(tree.data)[b * tree.stride[0] + i * tree.stride[1] + j * tree.stride[2]];
                if (sees != (i == j))
                    return invalid("tree_mask",
                                   "entry (" + text(b) + ", " + text(i) + ", " + text(j) + ") must be " +
                                       (i == j ? "true: a query sees its own row" : "false: the row is a later one"));
            }
    }
    return {};
}

Status check_distance_bias(const PagedOptions &o, PagedCall &p) {
    const ConstView &bias = o.distance_bias;
    if (!bias.given()) return {};
    if (bias.rank != 2) return invalid("distance_bias", "rank must be 2 (Hq, R), got " + text(bias.rank));
    if (Status s = check_same_type("distance_bias", bias.dtype, "query", p.rows.sizes.dtype); !s.ok()) return s;
    if (Status s = check_memory("distance_bias", bias); !s.ok()) return s;
    if (bias.extent[1] < 1) return invalid("distance_bias", "must have an entry for each head at least, got 0");
    return check_extent("distance_bias", "number of heads", bias.extent[0], "query", p.rows.sizes.query_heads);
}

// Entries of the places of so many keys: one for each run, or one for each key where pages are single rows.
std::int64_t places_of_keys(std::int64_t keys, const PagedRows &pool) {
    return pool.page == 1 ? keys : ceil_div(keys, keys_of_run);
}

// Places of the rows of a list of pages whose first row is key `first` of the sequence: shifts of runs, or rows.
void write_places(const PageList &list, std::int64_t first, std::int64_t rows, const PagedRows &pool, std::int32_t *places) {
    if (pool.page == 1) {
        for (std::int64_t j = 0; j < rows; j++) places[first + j] = int_at(list.pages, j);
        return;
    }
    for (std::int64_t j = 0; j < rows; j += keys_of_run) {
        const std::int64_t n = j / pool.page;
        places[(first + j) / keys_of_run] =
            static_cast<std::int32_t>(int_at(list.pages, n) * pool.of_page - n * pool.page - first);
    }
}

// Sizes of the sequences, and the entries that their places take.
Status check_sequences(const PagedOptions &o, std::int64_t batch, const PagedCall &p, std::int64_t &places,
                       std::int64_t &most_keys) {
    for (std::int64_t b = 0; b < batch; b++) {
        const std::int64_t queries = int_at(p.query_ends, b + 1) - int_at(p.query_ends, b), rows = int_at(p.lens, b);
        if (rows < queries)
            return invalid("lens", "entry (" + text(b) + ") is " + text(rows) + ", fewer rows than the " + text(queries) +
                                       " queries whose keys it counts");
        if (queries == 0) continue;
        if (Status s = check_page_list(pages_of(p, o, b), rows, p.keys); !s.ok()) return s;
        const std::int64_t keys = prefix_rows(o, b) + rows;
        if (keys + queries > most_extent)
            return unsupported("lens", "sequence " + text(b) + " has more than 2^31 - 1 queries and keys together");
        places += places_of_keys(keys, p.keys);
        most_keys = std::max(most_keys, keys);
    }
    return {};
}

Status list_sequences(Context::State &context, const PagedOptions &o, std::int64_t batch, PagedCall &p) {
    std::int64_t all_places = 0, most_keys = 0;
    if (Status s = check_sequences(o, batch, p, all_places, most_keys); !s.ok()) return s;
    const bool single_rows = p.keys.page == 1;
    // Shifts of rows in order, behind the places; kernels read shifts ahead in any case.
    const std::int64_t in_order = runs_read_ahead + (single_rows ? ceil_div(most_keys, keys_of_run) : 0);
    p.places.emplace(*context.scratch, static_cast<std::size_t>(all_places + in_order) * sizeof(std::int32_t));
    if (!p.places->data()) return no_memory();
    auto *places = static_cast<std::int32_t *>(p.places->data()), *shifts_in_order = places + all_places;
    for (std::int64_t b = 0; b < batch; b++) {
        const std::int64_t first = int_at(p.query_ends, b), queries = int_at(p.query_ends, b + 1) - first;
        const std::int64_t before = prefix_rows(o, b), rows = int_at(p.lens, b), keys = before + rows;
        if (queries == 0) continue;
        if (before > 0) {
            const std::int64_t g = prefix_of(o, b);
            write_places({"prefix.block_table", row_of(o.prefix.block_table, g), g}, 0, before, p.keys, places);
        }
        write_places(pages_of(p, o, b), before, rows, p.keys, places);
        Sequence s{b, first, queries, 0, keys};
        s.row_shift = ConstView(single_rows ? shifts_in_order : places, {1, ceil_div(keys, keys_of_run)});
        if (single_rows) s.row_list = ConstView(places, {keys});
        add_sequence(p, s);
        places += places_of_keys(keys, p.keys);
    }
    std::memset(shifts_in_order, 0, static_cast<std::size_t>(in_order) * sizeof(std::int32_t));
    sort_sequences(p);
    return {};
}

using MoreInputs = std::array<NamedView, 16>;
MoreInputs more_inputs(const ConstPages &keys, const ConstPages &values, const PagedOptions &o, const PagedCall &p) {
    return {{{"key_pages", keys.rows},
             {"value_pages", values.rows},
             {"key_pages.scale", keys.scale},
             {"value_pages.scale", values.scale},
             {"key_pages.minimum", keys.minimum},
             {"value_pages.minimum", values.minimum},
             {"cu_seqlens_q", p.query_ends},
             {"block_table", p.block_table},
             {"lens", p.lens},
             {"indptr", o.indptr},
             {"distance_bias", o.distance_bias},
             {"tree_mask", o.tree_mask},
             {"positions", o.positions},
             {"prefix.block_table", o.prefix.block_table},
             {"prefix.lens", o.prefix.lens},
             {"prefix.of", o.prefix.of}}};
}

}  // namespace

Status check_lens(const PagedCall &p) {
    if (Status s = check_list("lens", p.lens, "B"); !s.ok()) return s;
    return check_extent("lens", "number of entries", p.lens.extent[0], "cu_seqlens_q", p.batch());
}

Status check_table(std::string_view name, const ConstView &table, std::int64_t rows) {
    if (table.rank != 2) return invalid(name, "rank must be 2 (B, N), got " + text(table.rank));
    if (Status s = check_ints(name, table); !s.ok()) return s;
    return check_extent(name, "number of rows", table.extent[0], "lens", rows);
}

Status check_paged_arrays(Context::State &context, const ConstView &query, const ConstPages &keys, const ConstPages &values,
                          const View &out, const PagedOptions &o, bool on_device, PagedCall &p) {
    if (Status s = check_packed("query", query); !s.ok()) return s;
    if (Status s = check_packed("out", out); !s.ok()) return s;
    if (Status s = check_pools(query, keys, values, out, on_device, p); !s.ok()) return s;
    if (Status s = check_widths(query, out, p.keys, p.values); !s.ok()) return s;
    if (Status s = check_ends("cu_seqlens_q", p.query_ends, "query", query.extent[0]); !s.ok()) return s;
    SdpaOptions of_entry{.scale = o.scale, .softcap = o.softcap, .alibi = o.alibi, .alibi_slopes = o.alibi_slopes};
    of_entry.causal = causal_of(o);
    of_entry.window = o.window, of_entry.sinks = o.sinks, of_entry.invariant = o.invariant;
    if (o.alibi_slopes.given() && o.alibi_slopes.rank != 1)
        return invalid("alibi_slopes", "rank must be 1 (Hq), got " + text(o.alibi_slopes.rank));
    if (Status s = check_packed_lse("lse", o.lse, of_entry.lse); !s.ok()) return s;
    const ConstView k = as_numbers(p.keys, query.dtype), v = as_numbers(p.values, query.dtype);
    const MoreInputs more = more_inputs(keys, values, o, p);
    if (Status s = check_attention(as_entry(query), k, v, as_entry(out), of_entry, more, p.rows); !s.ok()) return s;
    p.rows.key = p.keys.rows, p.rows.value = p.values.rows;
    p.rows.key_scales = p.keys.scales, p.rows.value_scales = p.values.scales;
    if (is_quantised(p.rows) && !on_device) {
        if (Status s = check_dequantise(context, query.dtype); !s.ok()) return s;
        p.rows.dequantise = dequantise_rows;
    }
    p.rows.op = ops::sdpa;
    p.rows.scale = scale_of(of_entry, p.rows.sizes.head_dim);
    return {};
}

Status check_paged(Context::State &context, const ConstView &query, const ConstPages &keys, const ConstPages &values,
                   const View &out, const PagedOptions &o, PagedCall &p) {
    if (Status s = check_paged_arrays(context, query, keys, values, out, o, false, p); !s.ok()) return s;
    const std::int64_t batch = p.batch();
    if (Status s = check_lens(p); !s.ok()) return s;
    for (std::int64_t n = 0; n < batch; n++)
        if (int_at(p.lens, n) < 0)
            return invalid("lens", "entry (" + text(n) + ") must not be negative, got " + text(int_at(p.lens, n)));
    if (Status s = check_block_table(p, o, batch); !s.ok()) return s;
    if (Status s = check_prefix(p, o.prefix, batch); !s.ok()) return s;
    if (Status s = check_distance_bias(o, p); !s.ok()) return s;
    if (Status s = check_tree(o, p, batch); !s.ok()) return s;
    p.rows.sizes = with_band(p.rows.sizes, causal_of(o), window_of(o));
    if (o.tree_mask.given() || o.distance_bias.given()) p.rows.sizes.scored = p.rows.sizes.tables = true;
    if (Status s = list_sequences(context, o, batch, p); !s.ok() || !o.weight_sums.given()) return s;
    std::vector<NamedView> others = {
        {"out", out}, {"lse", o.lse}, {"query", query}, {"alibi_slopes", o.alibi_slopes}, {"sinks", o.sinks}};
    const MoreInputs more = more_inputs(keys, values, o, p);
    others.insert(others.end(), more.begin(), more.end());
    return check_weight_sums(o, others, p);
}

}  // namespace attune
