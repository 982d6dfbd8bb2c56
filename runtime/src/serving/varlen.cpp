// SPDX-License-Identifier: MIT
// Attention over a packed batch: one call of attention for each sequence, on rows of the same arrays.
#include "attune/varlen.h"
#include "attention/sdpa_device_call.h"
#include "dispatch/shape_record.h"
#include "serving/varlen_call.h"
#include <algorithm>
#include <vector>

namespace attune {
namespace {

Status check(const ConstView &query, const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &options,
             VarlenCall &p) {
    for (const auto &[name, view] : {std::pair("query", query), {"key", key}, {"value", value}, {"out", ConstView(out)}})
        if (Status s = check_packed(name, view); !s.ok()) return s;
    if (Status s = check_sequences(p, query, key); !s.ok()) return s;
    SdpaOptions of_entry;
    if (Status s = check_sequence_options(options, p, of_entry); !s.ok()) return s;
    if (Status s = check_packed_lse("lse", options.lse, of_entry.lse); !s.ok()) return s;
    if (Status s = check_attention(as_entry(query), as_entry(key), as_entry(value), as_entry(out), of_entry,
                                   named_lists(p, options), p.rows);
        !s.ok())
        return s;
    p.rows.op = op_of(options.score);
    p.rows.sizes.score = options.score;
    p.rows.scale = scale_of(options, p.rows.sizes.head_dim);
    keep_options(options, p);
    for (std::int64_t n = 0; n < p.batch(); n++)
        if (const Sequence sequence = sequence_of(p, n); sequence.queries > 0) add_sequence(p, sequence);
    sort_sequences(p);
    return {};
}

// Records one line if all sequences have as many queries as keys, or all have one query, and there are no options. Otherwise
// each sequence is recorded as a call of its own, with a share of the time in proportion to its work.
void record_sequences(ShapeRecord &record, VarlenCall &p, const SdpaOptions &options, CallStart start) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::sort(p.sequences.begin(), p.sequences.end(), [](auto &a, auto &b) { return a.number < b.number; });
    SdpaCall call = p.rows;
    std::vector<ShapeLine> lines;
    ShapeLine all{.op = "variable_length", .q = 0, .k = 0};
    bool one_line = true, square = true, one_query = true, causal = false, open = false;
    for (const Sequence &s : p.sequences) {
        select_sequence(p, options, s, call);
        ShapeLine &line = lines.emplace_back(shape_line(call.op.name, call));
        if (s.keys == 0) continue;
        square = square && s.queries == s.keys, one_query = one_query && s.queries == 1;
        if (s.queries > 1) (line.causal ? causal : open) = true;  // one query has the same keys either way
        one_line = one_line && call.op.id == OpId::sdpa && line.exact && line.left < 0 && line.right < 0 &&
                   line.options.empty() && line.length.empty() && !(causal && open);
        all = {all.op,
               line.dtype,
               1,
               line.h,
               line.kv,
               all.q + line.q,
               all.k + line.k,
               line.d,
               line.dv,
               causal,
               -1,
               -1,
               all.length + (all.q == 0 ? "" : "_") + std::to_string(s.keys)};
    }
    if (one_line && (square || one_query)) return record.add(all, seconds);
    for (std::size_t n = 0; n < lines.size(); n++) {
        lines[n].exact = false;
        if (p.work > 0) record.add(lines[n], seconds * p.sequences[n].work / p.work);
    }
}

Status run(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
           const SdpaOptions &options, VarlenCall &p, std::string_view why_here = {}) {
    const CallStart start = start_of_call();
    if (Status s = check(query, key, value, out, options, p); !s.ok()) return s;
    if (Status s = choose_sequences(state_of(context), p, options.variant); !s.ok()) return s;
    const auto run_one = [&](Sequence &s, SdpaCall &call, int) {
        select_sequence(p, options, s, call);
        return run_attention(context, call, s.choice);
    };
    if (Status s = run_sequences(state_of(context), p, p.rows, run_one); !s.ok()) return s;
    Choice of_most_work{nullptr, "no queries"};
    if (!p.sequences.empty()) of_most_work = p.sequences[0].choice.values;
    if (!why_here.empty()) of_most_work.reason = why_here;
    record_call(state_of(context), of_most_work, "variable_length", start,
                [&] { return "sequences " + text(p.batch()) + " " + sizes_text(p.rows.sizes); });
    if (state_of(context).shapes) record_sequences(*state_of(context).shapes, p, options, start);
    return {};
}

// A packed batch on a device: kernels of one sequence after another, in the order of the stream. All kernels are chosen before
// the first one writes.
Status run_there(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                 const SdpaOptions &options, VarlenCall &p) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(context);
    SdpaOptions read_there = options;
    read_there.offsets = {};
    std::vector<NamedView> all = named_inputs(query, key, value, read_there);
    all.insert(all.end(), {{"out", out}, {"lse", options.lse}, {"weights", options.weights}});
    if (Status s = check_places(all, "query"); !s.ok()) return s;
    if (Status s = check_device_options(options, query.dtype); !s.ok()) return s;
    if (Status s = check(as_host(query), as_host(key), as_host(value), as_host(out), as_host(options), p); !s.ok()) return s;
    std::vector<DeviceBands> bands(p.sequences.size());
    SdpaCall call = p.rows;
    for (std::size_t n = 0; n < bands.size(); n++) {
        Sequence &s = p.sequences[n];
        select_sequence(p, options, s, call);
        const NamedView rows[] = {
            {"query", call.query}, {"key", call.key}, {"value", call.value}, {"out", call.out}, {"lse", call.lse}};
        if (Status places = check_32_bit_places(rows, kernels_for_a_device); !places.ok()) return places;
        const Band band{call.band_begin[0], call.band_end[0], call.offset[0]};
        if (Status found = find_device_bands(band, call.sizes, bands[n]); !found.ok()) return found;
        if (Status chosen = choose_attention_on_device(state, call, options.variant, s.choice.values); !chosen.ok())
            return chosen;
    }
    for (std::size_t n = 0; n < bands.size(); n++) {
        select_sequence(p, options, p.sequences[n], call);
        if (Status s = run_attention_on_device(state, call, p.sequences[n].choice.values, bands[n]); !s.ok()) return s;
    }
    const Choice of_most_work = p.sequences.empty() ? Choice{nullptr, "no queries"} : p.sequences[0].choice.values;
    record_call(state, of_most_work, "variable_length", start,
                [&] { return "sequences " + text(p.batch()) + " " + sizes_text(p.rows.sizes); });
    return {};
}

Status run_on_device(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                     const SdpaOptions &options, VarlenCall &p) {
    if (Status s = check_lists_on_host(p, options); !s.ok()) return s;
    std::string instead;
    if (Status s = find_device(state_of(context), "query", instead); !s.ok()) return s;
    if (instead.empty()) return run_there(context, query, key, value, out, options, p);
    return run(context, as_host(query), as_host(key), as_host(value), as_host(out), as_host(options), p, instead);
}

}  // namespace

Status variable_length_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                 const ConstView &cu_seqlens_q, const ConstView &cu_seqlens_k, const View &out,
                                 const SdpaOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const ConstView &query_ends, const ConstView &key_ends, const SdpaOptions &given) {
        VarlenCall packed{{}, query_ends, key_ends, {}};
        if (q.place == Place::device) return run_on_device(context, q, k, v, o, given, packed);
        return run(context, q, k, v, o, given, packed);
    };
    return answer(context, body, query, key, value, out, cu_seqlens_q, cu_seqlens_k, options);
}

}  // namespace attune
