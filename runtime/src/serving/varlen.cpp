// SPDX-License-Identifier: MIT
// Attention over a packed batch: one call of attention for each sequence, on rows of the same arrays.
#include "attune/varlen.h"
#include "attention/sdpa_call.h"
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "tensors/max_magnitude.h"
#include <algorithm>
#include <array>
#include <vector>

namespace attune {
namespace {

// A sequence with queries.
struct Sequence {
    std::int64_t number, first_query, queries, first_key, keys;
    double work;  // multiply-adds
    AttentionChoice choice = {};
};

struct PackedCall {
    SdpaCall rows;  // all rows as one batch entry, with the options of all sequences
    ConstView query_ends, key_ends, offsets;
    std::vector<Sequence> sequences;  // the longest first
    double work = 0;                  // of all sequences
};

// (T, H, D) as (1, H, T, D).
template<typename Data> BasicView<Data> as_entry(const BasicView<Data> &v) {
    BasicView<Data> w = v;
    w.rank = 4;
    w.extent[0] = 1, w.stride[0] = 0;
    w.extent[1] = v.extent[1], w.stride[1] = v.stride[1];
    w.extent[2] = v.extent[0], w.stride[2] = v.stride[0];
    w.extent[3] = v.extent[2], w.stride[3] = v.stride[2];
    return w;
}

Status check_tensor(std::string_view name, const ConstView &v) {
    if (v.rank != 3) return invalid(name, "rank must be 3 (T, H, D), got " + text(v.rank));
    return check_memory(name, v);
}

Status check_list(std::string_view name, const ConstView &v, std::string_view shape) {
    if (v.rank != 1) return invalid(name, "rank must be 1 (" + std::string(shape) + "), got " + text(v.rank));
    return check_ints(name, v);
}

Status check_ends(std::string_view name, const ConstView &ends, std::string_view other, std::int64_t rows) {
    if (Status s = check_list(name, ends, "B + 1"); !s.ok()) return s;
    if (ends.extent[0] < 1) return invalid(name, "must have at least 1 entry, got 0");
    if (int_at(ends, 0) != 0) return invalid(name, "entry (0) must be 0, got " + text(int_at(ends, 0)));
    for (std::int64_t n = 1; n < ends.extent[0]; n++)
        if (int_at(ends, n) < int_at(ends, n - 1))
            return invalid(name, "entry (" + text(n) + ") is " + text(int_at(ends, n)) + ", below the one before it, " +
                                     text(int_at(ends, n - 1)));
    const std::int64_t last = ends.extent[0] - 1;
    if (int_at(ends, last) <= rows) return {};
    return invalid(name, "entry (" + text(last) + ") is " + text(int_at(ends, last)) + ", more than the " + text(rows) +
                             " rows of " + std::string(other));
}

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
    if (given.lse.given()) {
        if (given.lse.rank != 2) return invalid("lse", "rank must be 2 (Hq, Tq), got " + text(given.lse.rank));
        if (Status s = check_memory("lse", given.lse); !s.ok()) return s;
        View &lse = of_entry.lse;
        lse.rank = 3;
        for (int n = 2; n > 0; n--) lse.extent[n] = given.lse.extent[n - 1], lse.stride[n] = given.lse.stride[n - 1];
        lse.extent[0] = 1, lse.stride[0] = 0;
    }
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

void list_sequences(std::int64_t batch, PackedCall &p) {
    const SdpaProblem &all = p.rows.sizes;
    for (std::int64_t n = 0; n < batch; n++) {
        const std::int64_t q = int_at(p.query_ends, n), k = int_at(p.key_ends, n);
        Sequence s{n, q, int_at(p.query_ends, n + 1) - q, k, int_at(p.key_ends, n + 1) - k, 0};
        if (s.queries == 0) continue;
        s.work = static_cast<double>(all.query_heads) * static_cast<double>(s.queries) * static_cast<double>(s.keys) *
                 static_cast<double>(all.head_dim + all.value_dim);
        p.work += s.work;
        p.sequences.push_back(s);
    }
    std::stable_sort(p.sequences.begin(), p.sequences.end(), [](auto &a, auto &b) { return a.work > b.work; });
}

Status check(const ConstView &query, const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &options,
             PackedCall &p) {
    for (const auto &[name, view] : {std::pair("query", query), {"key", key}, {"value", value}, {"out", ConstView(out)}})
        if (Status s = check_tensor(name, view); !s.ok()) return s;
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

template<typename Data>
void take_rows(BasicView<Data> &to, const BasicView<Data> &all, std::int64_t first, std::int64_t count) {
    if (all.given()) to = part_of(all, 2, first, count);
}

// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one sequence.
void select_sequence(const PackedCall &p, const SdpaOptions &options, const Sequence &s, SdpaCall &call) {
    take_rows(call.query, p.rows.query, s.first_query, s.queries);
    take_rows(call.out, p.rows.out, s.first_query, s.queries);
    take_rows(call.lse, p.rows.lse, s.first_query, s.queries);
    take_rows(call.key, p.rows.key, s.first_key, s.keys);
    take_rows(call.value, p.rows.value, s.first_key, s.keys);
    call.sizes.queries = s.queries, call.sizes.keys = s.keys;
    std::optional<std::int64_t> offset = options.offset;
    if (p.offsets.given()) offset = int_at(p.offsets, s.number);
    const Band band = band_of(options, offset, s.queries, s.keys);
    call.band_begin[0] = band.begin, call.band_end[0] = band.end, call.offset[0] = band.offset;
    if (call.slopes.given())
        move_to(call.slopes, static_cast<const float *>(p.rows.slopes.data) + s.number * p.rows.slopes.stride[0]);
    call.first_head = static_cast<std::uint32_t>(s.number * call.sizes.query_heads);
}

// Runs all sequences. A large sequence has every thread; all others share one parallel region, with one thread each. While the
// last of these runs, the other threads are idle for a quarter of their share of the work at most.
Status run_sequences(Context &context, PackedCall &p, const SdpaOptions &options) {
    const int threads = worthwhile_threads(p.work, state_of(context).threads);
    constexpr double parts_of_a_share = 4;
    auto work_of_a_small_one = [&](double work) { return threads == 1 || work * parts_of_a_share * threads <= p.work; };
    const std::size_t count = p.sequences.size();
    std::size_t large = 0;
    while (large < count && !work_of_a_small_one(p.sequences[large].work)) large++;

    std::vector<SdpaCall> calls(std::min(count, static_cast<std::size_t>(threads)), p.rows);
    auto run = [&](std::size_t n, SdpaCall &call) {
        select_sequence(p, options, p.sequences[n], call);
        return run_attention(context, call, p.sequences[n].choice);
    };
    for (std::size_t n = 0; n < large; n++)
        if (Status s = run(n, calls[0]); !s.ok()) return s;
    return run_tasks(state_of(context), static_cast<std::int64_t>(count - large), threads, [&](std::int64_t n, int worker) {
        return run(large + static_cast<std::size_t>(n), calls[static_cast<std::size_t>(worker)]);
    });
}

// Records one line if all sequences have as many queries as keys, or all have one query, and there are no options. Otherwise
// each sequence is recorded as a call of its own, with a share of the time in proportion to its work.
void record_sequences(ShapeRecord &record, PackedCall &p, const SdpaOptions &options, CallStart start) {
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
           const SdpaOptions &options, PackedCall &p) {
    const CallStart start = start_of_call();
    if (Status s = check(query, key, value, out, options, p); !s.ok()) return s;
    SdpaCall sizes_of_one;
    sizes_of_one.op = p.rows.op;
    sizes_of_one.sizes = p.rows.sizes;
    for (Sequence &s : p.sequences) {
        sizes_of_one.sizes.queries = s.queries, sizes_of_one.sizes.keys = s.keys;
        if (Status chosen = choose_attention(state_of(context), sizes_of_one, options.variant, s.choice); !chosen.ok())
            return chosen;
    }
    Choice magnitude;
    if (query.dtype != DType::f64)  // a sequence may need it when it runs
        if (Status s = choose_max_magnitude(state_of(context), query.dtype, magnitude); !s.ok()) return s;
    if (Status s = run_sequences(context, p, options); !s.ok()) return s;
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
        PackedCall packed{{}, query_ends, key_ends, {}, {}};
        return run(context, q, k, v, o, given, packed);
    };
    return answer(context, body, query, key, value, out, cu_seqlens_q, cu_seqlens_k, options);
}

}  // namespace attune
