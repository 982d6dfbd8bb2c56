// SPDX-License-Identifier: MIT
// Sequences whose queries are packed in one array: what packed batches and paged caches share.
#pragma once
#include "attention/sdpa_call.h"
#include <functional>
#include <vector>

namespace attune {

// A sequence with queries. Its keys are rows [first_key, first_key + keys) of the call's key; or, where row_shift is given,
// keys of a pool.
struct Sequence {
    std::int64_t number, first_query, queries, first_key, keys;
    double work = 0;  // multiply-adds
    ConstView row_shift = {};
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
// Checks lse (Hq, Tq) and gives it as that of one batch entry.
Status check_packed_lse(const View &lse, View &of_entry);

// Appends a sequence if it has queries; and puts the longest first.
void add_sequence(PackedCall &, Sequence);
void sort_sequences(PackedCall &);

// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one sequence; but for its band, offset
// and tables.
void select_rows(const PackedCall &, const Sequence &, SdpaCall &call);
void set_band(SdpaCall &, const Band &);

// Chooses a variant for every sequence.
Status choose_sequences(Context::State &, PackedCall &, std::string_view variant);
// Runs all sequences: run(sequence, call), where `call` is a copy of p.rows. A large sequence has every thread; all others
// share one parallel region, with one thread each. While the last of these runs, the other threads are idle for a quarter of
// their share of the work at most.
using RunSequence = std::function<Status(Sequence &, SdpaCall &)>;
Status run_sequences(Context::State &, PackedCall &, const RunSequence &);

}  // namespace attune
