// SPDX-License-Identifier: MIT
#include "serving/packed_call.h"
#include "attention/dropout_threshold.h"
#include "tensors/max_magnitude.h"
#include <algorithm>

namespace attune {

Status check_packed(std::string_view name, const ConstView &v) {
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

void add_sequence(PackedCall &p, Sequence s) {
    const SdpaProblem &all = p.rows.sizes;
    s.work = static_cast<double>(all.query_heads) * static_cast<double>(s.queries) * static_cast<double>(s.keys) *
             static_cast<double>(all.head_dim + all.value_dim);
    p.work += s.work;
    p.sequences.push_back(s);
}

void sort_sequences(PackedCall &p) {
    std::stable_sort(p.sequences.begin(), p.sequences.end(), [](auto &a, auto &b) { return a.work > b.work; });
}

void select_rows(const PackedCall &p, const Sequence &s, SdpaCall &call) {
    take_rows(call.query, p.rows.query, s.first_query, s.queries);
    take_rows(call.out, p.rows.out, s.first_query, s.queries);
    take_rows(call.lse, p.rows.lse, s.first_query, s.queries);
    call.row_shift = s.row_shift;
    if (!s.row_shift.given()) {
        take_rows(call.key, p.rows.key, s.first_key, s.keys);
        take_rows(call.value, p.rows.value, s.first_key, s.keys);
    }
    call.sizes.queries = s.queries, call.sizes.keys = s.keys;
    call.first_head =
        call.dropout.first_head + static_cast<std::uint32_t>(s.number) * counted_heads(call.dropout, call.sizes.query_heads);
}

void set_band(SdpaCall &call, const Band &band) {
    call.band_begin = {band.begin}, call.band_end = {band.end}, call.offset = {band.offset};
}

Status choose_sequences(Context::State &context, PackedCall &p, std::string_view variant) {
    SdpaCall sizes_of_one;
    sizes_of_one.op = p.rows.op;
    sizes_of_one.sizes = p.rows.sizes;
    for (Sequence &s : p.sequences) {
        sizes_of_one.sizes.queries = s.queries, sizes_of_one.sizes.keys = s.keys;
        if (Status chosen = choose_attention(context, sizes_of_one, variant, s.choice); !chosen.ok()) return chosen;
    }
    if (p.rows.sizes.dtype == DType::f64) return {};
    Choice magnitude;  // a sequence may need it when it runs
    return choose_max_magnitude(context, p.rows.sizes.dtype, magnitude);
}

}  // namespace attune
