// SPDX-License-Identifier: MIT
#include "context_parallel/chunk_attention.h"
#include "attention/dropout_threshold.h"
#include "attention/prepared_sdpa.h"
#include "attune/merge.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

Status check_table(std::string_view name, const ConstView &v, const RankCall &call) {
    if (!v.given()) return {};
    if (v.rank > max_rank) return invalid(name, "rank must be from 1 to 4, got " + text(v.rank));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    const std::int64_t rows = call.query.extent[2],
                       full[] = {call.query.extent[0], call.query.extent[1], rows, call.plan.positions};
    for (int n = 0; n < v.rank; n++) {
        const std::int64_t expected = full[n + 4 - v.rank];
        if (v.extent[n] == 1 || v.extent[n] == expected) continue;
        return invalid(name, "extent " + text(n) + " must be 1 or " + text(expected) + ", got " + text(v.extent[n]));
    }
    return {};
}

Status check_refused(const SdpaOptions &o) {
    if (o.weights.given() || o.average_weights) return unsupported("weights", "are not taken with context parallelism");
    if (o.offset || o.offsets.given())
        return unsupported(o.offset ? "offset" : "offsets", "is not taken with context parallelism: positions are the plan's");
    if (o.cache_lens.given()) return unsupported("cache_lens", "is not taken with context parallelism");
    if (o.score == Score::general) return unsupported("score", "Score::general is not taken with context parallelism");
    if (o.causal == Causal::offset) return invalid("causal", "Causal::offset is not taken with context parallelism");
    return {};
}

// Where a pair of chunks lies in the call of all positions, in which packed documents are batch entries.
PairOrigin origin_of(const ParallelPlan &plan, const ChunkPair &p) {
    const auto &ends = plan.documents;
    if (ends.empty()) return {.query = p.query, .key = p.key, .queries = plan.positions, .keys = plan.positions};
    const auto next = std::upper_bound(ends.begin(), ends.end(), p.query);
    const std::int64_t begin = *(next - 1), length = (next == ends.end() ? plan.positions : *next) - begin;
    return {
        .entry = next - 1 - ends.begin(), .query = p.query - begin, .key = p.key - begin, .queries = length, .keys = length};
}

// Dropout of one pair of chunks: counters of the call of all positions.
Dropout dropout_of(const Dropout &all, std::int64_t query_heads, const PairOrigin &origin) {
    Dropout part = all;
    part.heads = counted_heads(all, query_heads);
    part.first_head += static_cast<std::uint32_t>(origin.entry) * part.heads;
    part.first_query += static_cast<std::uint32_t>(origin.query);
    part.first_key += static_cast<std::uint32_t>(origin.key);
    return part;
}

}  // namespace

bool uses_positions(const RankCall &call) {
    const SdpaOptions &o = call.options;
    return call.user || o.causal != Causal::none || o.window.left >= 0 || o.window.right >= 0 || o.alibi ||
           o.alibi_slopes.given();
}

Status attend_pair(Context &context, const UserCall *user, const PairOrigin &origin, const ConstView &query,
                   const ConstView &key, const ConstView &value, const View &out, const SdpaOptions &options) {
    if (!user) return scaled_dot_product_attention(context, query, key, value, out, options);
    return run_user_call(context, state_of(context), user->with(origin), query, key, value, out, options);
}

ConstView table_of(const ConstView &v) { return v.given() ? as_rank4(v, false) : v; }
ConstView rows_of_table(const ConstView &v, std::int64_t first, std::int64_t count) {
    return v.given() && v.extent[2] != 1 ? rows_of(v, first, count) : v;
}

PairOptions::PairOptions(const RankCall &call, const ConstView &mask, const ConstView &bias, std::int64_t first,
                         const ChunkPair &p)
    : options(call.options), origin(origin_of(call.plan, p)) {
    const SdpaOptions &all = call.options;
    SdpaOptions &o = options;
    o.lse = {}, o.sinks = {}, o.dropout = dropout_of(all.dropout, call.query.extent[1], origin);
    const auto part = [&](const ConstView &v) {
        ConstView some = rows_of_table(v, p.query - first, p.queries);
        return v.given() && v.extent[3] != 1 ? part_of(some, 3, p.key, p.keys) : some;
    };
    o.mask = part(mask), o.bias = part(bias);
    if (uses_positions(call)) {
        o.offset = p.query - p.key;
        if (o.causal != Causal::none) o.causal = Causal::offset;
    }
    if (!all.valid_lens.given()) return;
    for (std::int64_t b = 0; b < all.valid_lens.extent[0]; b++)
        lengths_.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(int_at(all.valid_lens, b) - p.key, 0, p.keys)));
    o.valid_lens = ConstView(lengths_.data(), {static_cast<std::int64_t>(lengths_.size())});
}

Status check_rank_call(const RankCall &call) {
    const ParallelPlan &plan = call.plan;
    const SdpaOptions &o = call.options;
    if (Status s = check_refused(o); !s.ok()) return s;
    if (Status s = check_score(o); !s.ok()) return s;
    const NamedView views[] = {{"query", call.query}, {"key", call.key}, {"value", call.value}};
    for (const NamedView &v : views) {
        if (v.view.place != Place::host) return unsupported(v.name, "must be on the host");
        if (v.view.rank != 4) return invalid(v.name, "rank must be 4 with context parallelism, got " + text(v.view.rank));
        if (Status s = check_memory(v.name, v.view); !s.ok()) return s;
    }
    const std::int64_t own = plan.positions_of(call.rank);
    for (const NamedView &v : {views[1], views[2]})
        if (v.view.extent[2] != own)
            return invalid(v.name, "has " + text(v.view.extent[2]) + " rows, the plan gives this rank " + text(own));
    if (!plan.documents.empty() && call.query.extent[0] != 1)
        return invalid("query", "batch must be 1 with packed documents, got " + text(call.query.extent[0]));
    if (!o.valid_lens.given()) return {};
    if (!plan.documents.empty()) return unsupported("valid_lens", "is not taken with packed documents");
    if (o.valid_lens.rank != 1) return invalid("valid_lens", "rank must be 1 with context parallelism");
    ConstView unused;
    return check_valid_lens(o.valid_lens, "query", call.query.extent[0], call.query.extent[2], plan.positions, unused);
}

Status check_queries(const RankCall &call) {
    const SdpaOptions &o = call.options;
    const std::int64_t own = call.plan.positions_of(call.rank);
    if (call.query.extent[2] != own)
        return invalid("query", "has " + text(call.query.extent[2]) + " rows, the plan gives this rank " + text(own));
    const ParallelBand &band = call.plan.band;
    if ((o.causal != Causal::none) != (band.causal != Causal::none)) return invalid("causal", "is not the plan's");
    if (o.window.left != band.window.left || o.window.right != band.window.right) return invalid("window", "is not the plan's");
    for (const NamedView &v : {NamedView{"mask", o.mask}, NamedView{"bias", o.bias}})
        if (Status s = check_table(v.name, v.view, call); !s.ok()) return s;
    return {};
}

Status check_attention_of_rank(Context::State &context, const RankCall &call, const View &out, const SdpaOptions &checked) {
    if (call.user) {
        SdpaCall of_user;
        AttentionChoice choice;
        return prepare_user_call(context, *call.user, call.query, call.key, call.value, out, checked, of_user, choice);
    }
    PreparedSdpa prepared;
    return prepared.prepare(context, call.query, call.key, call.value, out, checked);
}

Status check_captures_of_pairs(Context::State &context, const RankCall &call, const View &out) {
    if (!call.user) return {};
    static constexpr double nothing = 0;
    const Geometry geometry(call.plan);
    const ConstView mask = table_of(call.options.mask), bias = table_of(call.options.bias);
    const auto any_rows = [&](const ConstView &v, std::int64_t rows) {
        return typed_view(&nothing, v.dtype, {v.extent[0], v.extent[1], rows, v.extent[3]}, {0, 0, 0, 1});
    };
    for (const std::int64_t chunk : geometry.chunks_of(call.rank))
        for (std::int64_t of_keys = 0; of_keys < geometry.chunks(); of_keys++)
            for (const ChunkPair &p : geometry.pairs(chunk, of_keys)) {
                const std::int64_t first = geometry.begin(chunk), row = geometry.row(chunk), count = geometry.count(chunk);
                const PairOptions of_pair(call, rows_of_table(mask, row, count), rows_of_table(bias, row, count), first, p);
                const std::int64_t query = row + p.query - first;
                if (Status s =
                        check_captures_read(context, call.user->with(of_pair.origin), rows_of(call.query, query, p.queries),
                                            any_rows(call.key, p.keys), any_rows(call.value, p.keys),
                                            rows_of(out, query, p.queries), of_pair.options);
                    !s.ok())
                    return s;
            }
    return {};
}

Status check_rank_forward(Context::State &context, const RankCall &call, const View &out) {
    if (Status s = check_rank_call(call); !s.ok()) return s;
    if (Status s = check_queries(call); !s.ok()) return s;
    const SdpaOptions &o = call.options;
    // Everything else is checked as in a call of one chunk, which nothing computes. The views are those of this rank.
    SdpaOptions checked = o;
    checked.valid_lens = checked.mask = checked.bias = {};
    if (Status s = check_attention_of_rank(context, call, out, checked); !s.ok()) return s;
    const NamedView inputs[] = {{"mask", o.mask}, {"bias", o.bias}, {"valid_lens", o.valid_lens}};
    const NamedView outputs[] = {{"out", out}, {"lse", o.lse}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    if (Status s = check_captures_of_pairs(context, call, out); !s.ok()) return s;
    return check_chunk_kernels(context, out.dtype, false);
}

Status ChunkAttention::begin() {
    const View &out = out_;
    widened_ = is_widened(out.dtype);
    const DType sum = sum_type(out.dtype);
    const std::int64_t b = out.extent[0], h = out.extent[1], s = out.extent[2], d = out.extent[3];
    const std::int64_t chunk = std::min(call_.plan.chunk, s), size = size_of(sum);
    begun_.assign(geometry_.chunks_of(call_.rank).size(), 0);
    // lse of all rows if the caller wants none, sums of 16-bit types; a part, its lse, and the part in f32.
    const std::int64_t rows = b * h, sizes[] = {call_.options.lse.given() ? 0 : rows * s * size,
                                                widened_ ? rows * s * d * size : 0, rows * chunk * d * size_of(out.dtype),
                                                rows * chunk * size, widened_ ? rows * chunk * d * size : 0};
    std::int64_t all = 0;
    for (const std::int64_t n : sizes) all += ceil_div(n, 128) * 128;
    memory_.emplace(*state_of(context_).scratch, static_cast<std::size_t>(all));
    if (!memory_->data()) return no_memory();
    auto *memory = static_cast<char *>(memory_->data());
    const auto take = [&](int n) {
        char *begin = memory;
        memory += ceil_div(sizes[n], 128) * 128;
        return begin;
    };
    lse_ = without_column(dense_view(take(0), sum, b, h, s, 1));
    if (call_.options.lse.given()) lse_ = call_.options.lse;
    sums_ = widened_ ? dense_view(take(1), sum, b, h, s, d) : out;
    part_ = dense_view(take(2), out.dtype, b, h, chunk, d);
    part_lse_ = without_column(dense_view(take(3), sum, b, h, chunk, 1));
    wide_part_ = widened_ ? dense_view(take(4), sum, b, h, chunk, d) : part_;
    return {};
}

Status ChunkAttention::run_pairs(std::int64_t chunk, const std::vector<ChunkPair> &pairs, std::int64_t of_keys,
                                 const ConstView &key, const ConstView &value, const View &out, const View &lse) {
    const std::int64_t first = geometry_.begin(chunk), row = geometry_.row(chunk), count = geometry_.count(chunk);
    const ConstView mask = rows_of_table(table_of(call_.options.mask), row, count),
                    bias = rows_of_table(table_of(call_.options.bias), row, count);
    for (const ChunkPair &p : pairs) {
        PairOptions of_pair(call_, mask, bias, first, p);
        of_pair.options.lse = rows_of(lse, p.query - first, p.queries);
        const std::int64_t k = p.key - geometry_.begin(of_keys);
        if (Status s = attend_pair(context_, call_.user, of_pair.origin, rows_of(call_.query, row + p.query - first, p.queries),
                                   rows_of(key, k, p.keys), rows_of(value, k, p.keys), rows_of(out, p.query - first, p.queries),
                                   of_pair.options);
            !s.ok())
            return s;
    }
    return {};
}

Status ChunkAttention::add(std::size_t own, std::int64_t of_keys, const ConstView &key, const ConstView &value) {
    const std::int64_t chunk = geometry_.chunks_of(call_.rank)[own];
    const std::vector<ChunkPair> pairs = geometry_.pairs(chunk, of_keys);
    if (pairs.empty()) return {};
    const std::int64_t row = geometry_.row(chunk), count = geometry_.count(chunk);
    const View sums = rows_of(sums_, row, count), lse = rows_of(lse_, row, count);
    // A sink is a part without keys' values, before all others.
    if (!begun_[own] && call_.options.sinks.given()) {
        fill_zeros(sums), fill_lse(lse, call_.options.sinks);
        begun_[own] = true;
    }
    const bool first = !begun_[own];
    const View part = rows_of(part_, 0, count), wide = rows_of(wide_part_, 0, count);
    const View to = first && !widened_ ? sums : part, to_lse = first ? lse : rows_of(part_lse_, 0, count);
    if (pairs[0].queries != count) fill_zeros(to), fill_lse(to_lse, {});
    if (Status s = run_pairs(chunk, pairs, of_keys, key, value, to, to_lse); !s.ok()) return s;
    if (widened_)
        if (Status s = convert(state_of(context_), to, first ? sums : wide); !s.ok()) return s;
    begun_[own] = true;
    if (first) return {};
    return merge_attention(context_, sums, lse, wide, to_lse, sums, lse);
}

Status ChunkAttention::add(std::int64_t of_keys, const ConstView &key, const ConstView &value) {
    for (std::size_t own = 0; own < begun_.size(); own++)
        if (Status s = add(own, of_keys, key, value); !s.ok()) return s;
    return {};
}

Status ChunkAttention::end() {
    for (std::size_t own = 0; own < begun_.size(); own++) {
        if (begun_[own]) continue;  // some query of the chunk sees a key
        const std::int64_t chunk = geometry_.chunks_of(call_.rank)[own];
        fill_zeros(rows_of(sums_, geometry_.row(chunk), geometry_.count(chunk)));
        fill_lse(rows_of(lse_, geometry_.row(chunk), geometry_.count(chunk)), call_.options.sinks);
    }
    if (!widened_ || elements_of(out_) == 0) return {};
    return convert(state_of(context_), sums_, out_);
}

}  // namespace attune
