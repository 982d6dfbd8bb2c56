// SPDX-License-Identifier: MIT
// Attention over a packed batch: one call of attention for each sequence, on rows of the same arrays.
#include "attune/varlen.h"
#include "dispatch/shape_record.h"
#include "serving/packed_call.h"
#include <algorithm>
#include <array>
#include <vector>

namespace attune {
namespace {

Status check_left_out(const SdpaOptions &options) {
    if (options.score == Score::general) return invalid("score", "general is not taken for packed batches");
    for (const auto &[name, view] : {std::pair("bias", options.bias),
                                     {"mask", options.mask},
                                     {"valid_lens", options.valid_lens},
                                     {"cache_lens", options.cache_lens},
                                     {"weights", ConstView(options.weights)}})
        if (view.given()) return invalid(name, "is not taken for packed batches");
    return check_score(options);
}

// Checks options with an entry per sequence, and gives other checks the options of one batch entry.
Status check_per_sequence(const SdpaOptions &given, std::int64_t batch, SdpaOptions &of_entry) {
    of_entry = given;
    if (Status s = check_packed_lse(given.lse, of_entry.lse); !s.ok()) return s;
    if (given.offsets.given()) {
        if (given.offset) return invalid("offsets", "given beside offset; give one of them");
        if (Status s = check_list("offsets", given.offsets, "B"); !s.ok()) return s;
        if (Status s = check_extent("offsets", "batch (first extent)", given.offsets.extent[0], "cu_seqlens_q", batch); !s.ok())
            return s;
        of_entry.offsets = {};
        of_entry.offset = 0;
    }
    if (given.alibi_slopes.rank == 2) {
        const ConstView &slopes = given.alibi_slopes;
        if (Status s = check_memory("alibi_slopes", slopes); !s.ok()) return s;
        if (Status s = check_extent("alibi_slopes", "batch (first extent)", slopes.extent[0], "cu_seqlens_q", batch); !s.ok())
            return s;
        ConstView &row = of_entry.alibi_slopes;
        row.rank = 1;
        row.extent[0] = slopes.extent[1], row.stride[0] = slopes.stride[1];
        if (batch == 0) row = {};
    }
    return {};
}

// A packed batch whose keys are packed too.
struct VarlenCall : PackedCall {
    ConstView query_ends, key_ends, offsets;
};

void list_sequences(std::int64_t batch, VarlenCall &p) {
    for (std::int64_t n = 0; n < batch; n++) {
        const std::int64_t q = int_at(p.query_ends, n), k = int_at(p.key_ends, n);
        add_sequence(p, {n, q, int_at(p.query_ends, n + 1) - q, k, int_at(p.key_ends, n + 1) - k});
    }
    sort_sequences(p);
}

Status check(const ConstView &query, const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &options,
             VarlenCall &p) {
    for (const auto &[name, view] : {std::pair("query", query), {"key", key}, {"value", value}, {"out", ConstView(out)}})
        if (Status s = check_packed(name, view); !s.ok()) return s;
    if (Status s = check_ends("cu_seqlens_q", p.query_ends, "query", query.extent[0]); !s.ok()) return s;
    if (Status s = check_ends("cu_seqlens_k", p.key_ends, "key", key.extent[0]); !s.ok()) return s;
    if (Status s =
            check_extent("cu_seqlens_k", "number of entries", p.key_ends.extent[0], "cu_seqlens_q", p.query_ends.extent[0]);
        !s.ok())
        return s;
    if (Status s = check_left_out(options); !s.ok()) return s;
    const std::int64_t batch = p.query_ends.extent[0] - 1;
    SdpaOptions of_entry;
    if (Status s = check_per_sequence(options, batch, of_entry); !s.ok()) return s;
    const std::array<NamedView, 4> more{{{"cu_seqlens_q", p.query_ends},
                                         {"cu_seqlens_k", p.key_ends},
                                         {"offsets", options.offsets},
                                         {"alibi_slopes", options.alibi_slopes}}};
    if (Status s = check_attention(as_entry(query), as_entry(key), as_entry(value), as_entry(out), of_entry, more, p.rows);
        !s.ok())
        return s;
    p.rows.op = op_of(options.score);
    p.rows.sizes.score = options.score;
    p.rows.scale = scale_of(options, p.rows.sizes.head_dim);
    p.offsets = options.offsets;
    if (options.alibi_slopes.rank == 2) p.rows.slopes.stride[0] = options.alibi_slopes.stride[0];
    list_sequences(batch, p);
    return {};
}

// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one sequence.
void select_sequence(const VarlenCall &p, const SdpaOptions &options, const Sequence &s, SdpaCall &call) {
    select_rows(p, s, call);
    std::optional<std::int64_t> offset = options.offset;
    if (p.offsets.given()) offset = int_at(p.offsets, s.number);
    set_band(call, band_of(options, offset, s.queries, s.keys));
    if (call.slopes.given())
        move_to(call.slopes, static_cast<const float *>(p.rows.slopes.data) + s.number * p.rows.slopes.stride[0]);
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
           const SdpaOptions &options, VarlenCall &p) {
    const CallStart start = start_of_call();
    if (Status s = check(query, key, value, out, options, p); !s.ok()) return s;
    if (Status s = choose_sequences(state_of(context), p, options.variant); !s.ok()) return s;
    const auto run_one = [&](Sequence &s, SdpaCall &call) {
        select_sequence(p, options, s, call);
        return run_attention(context, call, s.choice);
    };
    if (Status s = run_sequences(state_of(context), p, run_one); !s.ok()) return s;
    Choice of_most_work{nullptr, "no queries"};
    if (!p.sequences.empty()) of_most_work = p.sequences[0].choice.values;
    record_call(state_of(context), of_most_work, "variable_length", start,
                [&] { return "sequences " + text(p.query_ends.extent[0] - 1) + " " + sizes_text(p.rows.sizes); });
    if (state_of(context).shapes) record_sequences(*state_of(context).shapes, p, options, start);
    return {};
}

}  // namespace

Status variable_length_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                 const ConstView &cu_seqlens_q, const ConstView &cu_seqlens_k, const View &out,
                                 const SdpaOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const ConstView &query_ends, const ConstView &key_ends, const SdpaOptions &given) {
        VarlenCall packed{{}, query_ends, key_ends, {}};
        return run(context, q, k, v, o, given, packed);
    };
    return answer(context, body, query, key, value, out, cu_seqlens_q, cu_seqlens_k, options);
}

}  // namespace attune
