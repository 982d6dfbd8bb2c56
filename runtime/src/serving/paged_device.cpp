// SPDX-License-Identifier: MIT
// Attention over pages on a device. Consecutive sequences with as many queries each, such as all steps of a batch, are one
// kernel: the entries of a dense batch whose keys a table places. Kernels read table and lengths, so that the same call can be
// captured and replayed while sequences grow; the work of the kernels that are queued follows the width of the table.
#include "attention/sdpa_device_call.h"
#include "serving/paged_call.h"
#include "serving/quantised_rows.h"
#include <bit>
#include <vector>

namespace attune {
namespace {

Status check_options(const PagedOptions &o, const ConstPages &keys, const ConstPages &values, DType type) {
    const std::pair<std::string_view, bool> given[] = {{"distance_bias", o.distance_bias.given()},
                                                       {"tree_mask", o.tree_mask.given()},
                                                       {"positions", o.positions.given()},
                                                       {"prefix", o.prefix.of.given()},
                                                       {"indptr", o.indptr.given()},
                                                       {"weight_sums", o.weight_sums.given()}};
    for (const auto &[name, is_given] : given)
        if (is_given) return unsupported(name, "is not taken for pages on a device");
    const bool quantised = is_quantised(keys.rows) || is_quantised(values.rows);
    if (quantised && keys.rows.dtype != values.rows.dtype)
        return unsupported("value_pages", std::string("has pages of ") + name_of(values.rows.dtype) + ", key_pages of " +
                                              name_of(keys.rows.dtype) + "; on a device both are quantised alike");
    SdpaOptions shared;
    shared.alibi = o.alibi, shared.alibi_slopes = o.alibi_slopes, shared.invariant = o.invariant;
    return check_device_options(shared, type);
}

Status check_all_places(const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out,
                        const PagedOptions &o, const PagedCall &p) {
    const NamedView all[] = {{"key_pages", keys.rows},
                             {"key_pages.scale", keys.scale},
                             {"key_pages.minimum", keys.minimum},
                             {"value_pages", values.rows},
                             {"value_pages.scale", values.scale},
                             {"value_pages.minimum", values.minimum},
                             {"block_table", p.block_table},
                             {"lens", p.lens},
                             {"query", query},
                             {"out", out},
                             {"alibi_slopes", o.alibi_slopes},
                             {"sinks", o.sinks},
                             {"lse", o.lse}};
    return check_places(all, "query");
}

// Sequences [begin, end), each with `queries` queries.
struct Run {
    std::int64_t begin, end, first_query, queries;
    DevicePages pages;
    DeviceBands bands = {};
    Choice choice = {};
};

std::vector<Run> runs_of(const PagedCall &p) {
    std::vector<Run> runs;
    for (std::int64_t b = 0; b < p.batch(); b++) {
        const std::int64_t first = int_at(p.query_ends, b), queries = int_at(p.query_ends, b + 1) - first;
        if (queries == 0) continue;
        if (!runs.empty() && runs.back().end == b && runs.back().queries == queries)
            runs.back().end++;
        else
            runs.push_back({b, b + 1, first, queries, {}});
    }
    return runs;
}

// Packed rows (1, H, T, ...) of a run as the entries of a batch.
template<typename Data> BasicView<Data> entries_of(const BasicView<Data> &packed, const Run &run) {
    if (!packed.given()) return packed;
    BasicView<Data> v = part_of(packed, 2, run.first_query, run.queries);
    v.extent[0] = run.end - run.begin, v.stride[0] = run.queries * packed.stride[2];
    return v;
}

// The call of a run, whose keys are as many as its table has room for; none where the pool has no page.
SdpaCall call_of(const PagedCall &p, const Run &run) {
    SdpaCall call = p.rows;
    call.query = entries_of(call.query, run), call.out = entries_of(call.out, run), call.lse = entries_of(call.lse, run);
    if (call.slopes.given()) call.slopes.extent[0] = run.end - run.begin, call.slopes.stride[0] = 0;
    call.device_pages = &run.pages;
    if (is_quantised(call)) call.op = op_of_type(call.key.dtype);
    call.sizes.batch = run.end - run.begin, call.sizes.queries = run.queries;
    call.sizes.keys = p.keys.pages == 0 ? 0 : p.block_table.extent[1] * p.keys.page;
    return call;
}

// The last query of a sequence stands at the last of its rows: lens[b] - queries is the position of the first one.
Status find_bands(const PagedCall &p, const PagedOptions &o, const SdpaProblem &sizes, Run &run) {
    SdpaOptions band;
    band.causal = o.causal ? Causal::offset : Causal::none, band.window = o.window;
    band.offsets = band.valid_lens = part_of(p.lens, 0, run.begin, run.end - run.begin);
    if (Status s = find_device_bands(band, sizes, run.bands); !s.ok()) return s;
    const auto before = static_cast<std::int32_t>(run.queries);
    run.bands.begin -= before, run.bands.end -= before, run.bands.offset -= before;
    return {};
}

Status prepare(const Context::State &state, const PagedCall &p, const PagedOptions &o, Run &run) {
    run.pages = {part_of(p.block_table, 0, run.begin, run.end - run.begin), static_cast<std::int32_t>(p.keys.pages),
                 std::countr_zero(static_cast<std::uint64_t>(p.keys.page)), static_cast<std::int32_t>(p.keys.of_page)};
    const SdpaCall call = call_of(p, run);
    const NamedView views[] = {{"query", call.query},
                               {"key_pages", call.key},
                               {"value_pages", call.value},
                               {"block_table", p.block_table},
                               {"out", call.out},
                               {"lse", call.lse},
                               {"key_pages.scale", call.key_scales.scale},
                               {"value_pages.scale", call.value_scales.scale},
                               {"key_pages.minimum", call.key_scales.minimum},
                               {"value_pages.minimum", call.value_scales.minimum}};
    if (Status s = check_32_bit_places(views, kernels_for_a_device); !s.ok()) return s;
    if (Status s = find_bands(p, o, call.sizes, run); !s.ok()) return s;
    return choose_attention_on_device(state, call, o.variant, run.choice);
}

}  // namespace

Status paged_on_device(Context &caller, const ConstView &query, const ConstPages &keys, const ConstPages &values,
                       const View &out, const PagedOptions &o, PagedCall &p) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(caller);
    if (Status s = check_all_places(query, keys, values, out, o, p); !s.ok()) return s;
    if (Status s = check_options(o, keys, values, query.dtype); !s.ok()) return s;
    p.block_table = as_host(p.block_table), p.lens = as_host(p.lens);
    if (Status s = check_paged_arrays(state, as_host(query), as_host(keys), as_host(values), as_host(out), as_host(o), true, p);
        !s.ok())
        return s;
    if (Status s = check_lens(p); !s.ok()) return s;
    if (Status s = check_table("block_table", p.block_table, p.batch()); !s.ok()) return s;
    if (!std::has_single_bit(static_cast<std::uint64_t>(p.keys.page)))
        return unsupported("key_pages", "has pages of " + text(p.keys.page) + " rows; on a device they are a power of two");
    std::vector<Run> runs = runs_of(p);
    for (Run &run : runs)
        if (Status s = prepare(state, p, o, run); !s.ok()) return s;
    for (const Run &run : runs)
        if (Status s = run_attention_on_device(state, call_of(p, run), run.choice, run.bands); !s.ok()) return s;
    const Choice first = runs.empty() ? Choice{nullptr, "no queries"} : runs[0].choice;
    record_call(state, first, "paged", start, [&] {
        return "sequences " + text(p.batch()) + " pages of " + text(p.keys.page) + " " + sizes_text(p.rows.sizes);
    });
    return {};
}

}  // namespace attune
