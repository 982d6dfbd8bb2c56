// SPDX-License-Identifier: MIT
// Sequences whose queries are packed in one array: what packed batches and paged caches share.
#pragma once
#include "attention/sdpa_call.h"
#include "execution/halide_call.h"
#include <algorithm>
#include <vector>

namespace attune {

// A sequence. Its keys are rows [first_key, first_key + keys) of the call's key; or, where row_shift is given, keys of a pool;
// or, where row_list is given, these rows of a pool, in its order.
struct Sequence {
    std::int64_t number, first_query, queries, first_key, keys;
    double work = 0;  // multiply-adds
    ConstView row_shift = {};
    ConstView row_list = {};  // i32 (keys); row_shift is then that of rows in order
    AttentionChoice choice = {};
    const Op *op_of_rows = nullptr;  // of quantised rows, where its variants read them in place
};

struct PackedCall {
    SdpaCall rows;                    // all rows as one batch entry, with the options of all sequences
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

// Checks an array of packed rows; and its memory.
Status check_packed(std::string_view name, const ConstView &);
// Checks a list of int32; and one of ends: from 0, never falling, at most `rows`.
Status check_list(std::string_view name, const ConstView &, std::string_view shape);
Status check_ends(std::string_view name, const ConstView &ends, std::string_view other, std::int64_t rows);
// Checks lse (Hq, Tq), if it is given, and gives it as that of one batch entry.
template<typename Data> Status check_packed_lse(std::string_view name, const BasicView<Data> &lse, BasicView<Data> &of_entry) {
    if (!lse.given()) return {};
    if (lse.rank != 2) return invalid(name, "rank must be 2 (Hq, Tq), got " + text(lse.rank));
    if (Status s = check_memory(name, lse); !s.ok()) return s;
    of_entry = lse;
    of_entry.rank = 3;
    for (int n = 2; n > 0; n--) of_entry.extent[n] = lse.extent[n - 1], of_entry.stride[n] = lse.stride[n - 1];
    of_entry.extent[0] = 1, of_entry.stride[0] = 0;
    return {};
}
// Row n of a view of rank 2.
template<typename Data> BasicView<Data> row_of(const BasicView<Data> &v, std::int64_t n) {
    BasicView<Data> row = part_of(v, 0, n, 1);
    row.rank = 1;
    row.extent[0] = v.extent[1], row.stride[0] = v.stride[1];
    return row;
}

// Appends a sequence; and puts the longest first.
void add_sequence(PackedCall &, Sequence);
void sort_sequences(PackedCall &);

// Rows [first, first + count) of a view (B, H, S, ...), if it is given.
template<typename Data>
void take_rows(BasicView<Data> &to, const BasicView<Data> &all, std::int64_t first, std::int64_t count) {
    if (all.given()) to = part_of(all, 2, first, count);
}
// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one sequence; but for its band, offset
// and tables.
void select_rows(const PackedCall &, const Sequence &, SdpaCall &call);
void set_band(SdpaCall &, const Band &);

// Chooses a variant for every sequence.
Status choose_sequences(Context::State &, PackedCall &, std::string_view variant);
// Runs all sequences: run(sequence, call, threads), where `call` is a copy of `rows` that the worker keeps. A large sequence
// has every thread; all others share one parallel region, with one thread each. While the last of these runs, the other threads
// are idle for a quarter of their share of the work at most.
template<typename Call, typename Run>
Status run_sequences(Context::State &context, PackedCall &p, const Call &rows, const Run &run) {
    const int threads = worthwhile_threads(p.work, context.threads);
    constexpr double parts_of_a_share = 4;
    auto work_of_a_small_one = [&](double work) { return threads == 1 || work * parts_of_a_share * threads <= p.work; };
    const std::size_t count = p.sequences.size();
    std::size_t large = 0;
    while (large < count && !work_of_a_small_one(p.sequences[large].work)) large++;

    std::vector<Call> calls(std::min(count, static_cast<std::size_t>(threads)), rows);
    for (std::size_t n = 0; n < large; n++)
        if (Status s = run(p.sequences[n], calls[0], context.threads); !s.ok()) return s;
    return run_tasks(context, static_cast<std::int64_t>(count - large), threads, [&](std::int64_t n, int worker) {
        return run(p.sequences[large + static_cast<std::size_t>(n)], calls[static_cast<std::size_t>(worker)], 1);
    });
}

}  // namespace attune
