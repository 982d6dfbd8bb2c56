// SPDX-License-Identifier: MIT
#include "attention/sdpa_call.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace attune {
namespace {

// Checks a tensor; as4 is the same memory as rank 4, (B, H, S, D).
Status check_tensor(std::string_view name, const ConstView &v, int rank, DType dtype, ConstView &as4) {
    if (v.rank < 2 || v.rank > 4) return invalid(name, "rank must be 2, 3 or 4, got " + text(v.rank));
    if (v.rank != rank) return invalid(name, "rank is " + text(v.rank) + ", that of query is " + text(rank));
    if (Status s = check_real(name, v); !s.ok()) return s;
    if (Status s = check_same_type(name, v.dtype, "query", dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (v.extent[rank - 1] < 1) return invalid(name, "last extent must be at least 1, got " + text(v.extent[rank - 1]));
    if (Status s = check_dense(name, v); !s.ok()) return s;
    as4 = as_rank4(v, true);
    return {};
}

Status check_heads(std::int64_t query_heads, std::int64_t key_heads) {
    if (key_heads == 0 ? query_heads == 0 : query_heads % key_heads == 0) return {};
    return invalid("key", "number of heads is " + text(key_heads) + ", which must divide the " + text(query_heads) +
                              " heads of query");
}

Status check_sizes(SdpaCall &call, std::string_view out) {
    const ConstView &q = call.query, &k = call.key, &v = call.value;
    const View &o = call.out;
    const ExtentMatch matches[] = {{"key", "batch (first extent)", k.extent[0], "query", q.extent[0]},
                                   {"key", "head size (last extent)", k.extent[3], "query", q.extent[3]},
                                   {"value", "batch (first extent)", v.extent[0], "query", q.extent[0]},
                                   {"value", "number of heads", v.extent[1], "key", k.extent[1]},
                                   {"value", "number of keys", v.extent[2], "key", k.extent[2]},
                                   {out, "batch (first extent)", o.extent[0], "query", q.extent[0]},
                                   {out, "number of heads", o.extent[1], "query", q.extent[1]},
                                   {out, "number of queries", o.extent[2], "query", q.extent[2]},
                                   {out, "head size (last extent)", o.extent[3], "value", v.extent[3]}};
    if (Status s = check_extents(matches); !s.ok()) return s;
    if (Status s = check_heads(q.extent[1], k.extent[1]); !s.ok()) return s;
    if (q.extent[2] + k.extent[2] > most_extent)
        return unsupported("key",
                           text(q.extent[2]) + " queries and " + text(k.extent[2]) + " keys are more than 2^31 - 1 together");
    SdpaProblem &p = call.sizes;
    p.dtype = q.dtype, p.batch = q.extent[0], p.query_heads = q.extent[1], p.key_heads = k.extent[1];
    p.queries = q.extent[2], p.keys = k.extent[2], p.head_dim = q.extent[3], p.value_dim = v.extent[3];
    return {};
}

Status check_batch_ints(std::string_view name, const ConstView &v, std::int64_t batch) {
    if (Status s = check_ints(name, v); !s.ok()) return s;
    return check_extent(name, "batch (first extent)", v.extent[0], "query", batch);
}

// Expands cache_lens to lengths and the offset of each batch entry.
Status check_cache_lens(const SdpaOptions &options, SdpaCall &call) {
    const ConstView &lens = options.cache_lens;
    if (!lens.given()) return {};
    for (const auto &[name, given] : {std::pair("valid_lens", options.valid_lens.given()),
                                      {"offset", options.offset.has_value()},
                                      {"offsets", options.offsets.given()}})
        if (given) return invalid("cache_lens", std::string("given beside ") + name + ", which it implies");
    if (lens.rank != 1) return invalid("cache_lens", "rank must be 1 (B), got " + text(lens.rank));
    const SdpaProblem &p = call.sizes;
    if (Status s = check_batch_ints("cache_lens", lens, p.batch); !s.ok()) return s;
    if (p.keys < p.queries && p.batch > 0)
        return invalid("cache_lens", "the cache has room for " + text(p.keys) + " keys, fewer than the " + text(p.queries) +
                                         " queries whose keys it holds");
    auto longer = std::make_shared<std::vector<std::int32_t>>();
    for (std::int64_t b = 0; b < p.batch; b++) {
        const std::int32_t n = int_at(lens, b);
        if (n < 0 || n > p.keys - p.queries)
            return invalid("cache_lens", "entry (" + text(b) + ") is " + text(n) + ", must be from 0 to " +
                                             text(p.keys - p.queries) + ", the number of keys less that of queries");
        longer->push_back(n + static_cast<std::int32_t>(p.queries));
    }
    call.lengths = ConstView(longer->data(), {p.batch, p.queries}, {1, 0});
    call.cache_lengths = std::move(longer);
    return {};
}

// Checks the bands of keys that causal, window and offset leave, docs/conventions.md rows 5 and 6.
Status check_bands(const SdpaOptions &options, SdpaCall &call) {
    const std::int64_t queries = call.sizes.queries, keys = call.sizes.keys;
    for (const auto &[side, value] : {std::pair("left", options.window.left), std::pair("right", options.window.right)})
        if (value < -1) return invalid("window", std::string(side) + " must be at least -1 (unbounded), got " + text(value));
    if (options.offset && options.offsets.given()) return invalid("offsets", "given beside offset; give one of them");
    const ConstView &offsets = options.cache_lens.given() ? options.cache_lens : options.offsets;
    if (options.causal == Causal::offset && !options.offset && !offsets.given())
        return invalid("offset", "must be given with Causal::offset");
    if (options.offsets.given()) {
        if (options.offsets.rank != 1) return invalid("offsets", "rank must be 1 (B), got " + text(options.offsets.rank));
        if (Status s = check_batch_ints("offsets", options.offsets, call.sizes.batch); !s.ok()) return s;
    }
    call.sizes = with_band(call.sizes, options.causal, options.window);
    const std::int64_t count = offsets.given() ? call.sizes.batch : 1;
    for (std::int64_t b = 0; b < count; b++) {
        std::optional<std::int64_t> off = options.offset;
        if (offsets.given()) off = int_at(offsets, b);
        const Band band = band_of(options, off, queries, keys);
        call.band_begin.push_back(band.begin), call.band_end.push_back(band.end), call.offset.push_back(band.offset);
    }
    return {};
}

}  // namespace

Band band_of(const SdpaOptions &options, std::optional<std::int64_t> given, std::int64_t queries, std::int64_t keys) {
    __int128 off = given ? *given : options.causal == Causal::bottom_right ? keys - queries : 0;
    const __int128 right = right_of_window(options);
    // Bands are clamped to the keys' range: ends beyond it mean the same, and within it 32 bits suffice.
    auto clamp = [&](__int128 x) { return static_cast<std::int32_t>(std::clamp<__int128>(x, -queries, keys)); };
    Band band;
    band.begin = options.window.left < 0 ? clamp(-queries) : clamp(off - options.window.left);
    band.end = right < 0 ? clamp(keys) : clamp(off + right + 1);
    // Without a given offset, ALiBi counts from the last key.
    if (!given && options.causal == Causal::none) off = keys - queries;
    constexpr __int128 far = most_extent / 2;  // distances beyond it stay within 32 bits
    band.offset = static_cast<std::int32_t>(std::clamp(off, -far, far));
    return band;
}

SdpaProblem with_band(SdpaProblem p, Causal causal, Window window) noexcept {
    const std::int64_t left = window.left, right = causal == Causal::none ? window.right : 0;
    p.window_keys = left >= 0 && right >= 0 ? std::min(left, p.keys) + std::min(right, p.keys) + 1 : 0;
    p.causal = (left >= 0) != (right >= 0);
    return p;
}

Status check_problem(const SdpaProblem &p) {
    struct Size {
        std::string_view name;
        std::int64_t value, least;
    } sizes[] = {{"batch", p.batch, 0},         {"query_heads", p.query_heads, 0},
                 {"key_heads", p.key_heads, 0}, {"queries", p.queries, 0},
                 {"keys", p.keys, 0},           {"head_dim", p.head_dim, 1},
                 {"value_dim", p.value_dim, 1}, {"window_keys", p.window_keys, 0}};
    for (const Size &s : sizes)
        if (s.value < s.least || s.value > most_extent)
            return invalid(s.name, "must be from " + text(s.least) + " to 2^31 - 1, got " + text(s.value));
    ConstView typed;
    typed.dtype = p.dtype;
    if (Status s = check_real("dtype", typed); !s.ok()) return s;
    if (Status s = check_score_type(p.score, "dtype", p.dtype); !s.ok()) return s;
    return check_heads(p.query_heads, p.key_heads);
}

Status check_pairs(std::string_view name, const std::array<std::int64_t, 4> &n, std::string_view kind) {
    __int128 pairs = 1;
    for (const std::int64_t extent : n) pairs *= extent;  // an extent of a tensor with elements has 31 bits at most
    if (pairs <= most_extent) return {};
    return unsupported(name, text(n[0]) + " x " + text(n[1]) + " x " + text(n[2]) + " x " + text(n[3]) +
                                 " pairs of a query and a key (batch, heads, queries, keys) are more than 2^31 - 1, which "
                                 "kernels for a device of kind " +
                                 std::string(kind) + " take at most");
}

Status check_by_query(std::string_view name, const ConstView &v, int rank, const SdpaProblem &p, ConstView &as3) {
    if (v.rank != rank - 1)
        return invalid(name, "rank must be " + text(rank - 1) + ", one less than that of query, got " + text(v.rank));
    if (v.dtype != sum_type(p.dtype))
        return invalid(name, std::string("type must be ") + name_of(sum_type(p.dtype)) + " where query is " + name_of(p.dtype) +
                                 ", got " + name_of(v.dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    // (B, H, S) as (B, H, S, 1), whose first three dimensions the kernel takes.
    ConstView with_channel = v;
    with_channel.rank = rank;
    with_channel.extent[rank - 1] = 1, with_channel.stride[rank - 1] = 1;
    as3 = as_rank4(with_channel, true);
    as3.rank = 3;
    const ExtentMatch matches[] = {{name, "batch (first extent)", as3.extent[0], "query", p.batch},
                                   {name, "number of heads", as3.extent[1], "query", p.query_heads},
                                   {name, "number of queries", as3.extent[2], "query", p.queries}};
    return check_extents(matches);
}

Status check_inputs(const ConstView &query, const ConstView &key, const ConstView &value, const NamedView &out,
                    const SdpaOptions &options, SdpaCall &call) {
    const int rank = query.rank;
    ConstView out4;
    if (Status s = check_tensor("query", query, rank, query.dtype, call.query); !s.ok()) return s;
    if (Status s = check_score_type(options.score, "query", query.dtype); !s.ok()) return s;
    if (Status s = check_tensor("key", key, rank, query.dtype, call.key); !s.ok()) return s;
    if (Status s = check_tensor("value", value, rank, query.dtype, call.value); !s.ok()) return s;
    if (Status s = check_tensor(out.name, out.view, rank, query.dtype, out4); !s.ok()) return s;
    call.out = writable(out4);
    if (Status s = check_sizes(call, out.name); !s.ok()) return s;
    if (options.scale)
        if (Status s = check_number("scale", *options.scale, query.dtype); !s.ok()) return s;
    if (Status s = check_cache_lens(options, call); !s.ok()) return s;
    if (Status s = check_bands(options, call); !s.ok()) return s;
    if (options.valid_lens.given()) {
        const SdpaProblem &p = call.sizes;
        if (Status s = check_valid_lens(options.valid_lens, "query", p.batch, p.queries, p.keys, call.lengths); !s.ok())
            return s;
    }
    return check_score_options(options, rank, call);
}

std::vector<NamedView> named_inputs(const ConstView &query, const ConstView &key, const ConstView &value,
                                    const SdpaOptions &options) {
    return {{"query", query},
            {"key", key},
            {"value", value},
            {"valid_lens", options.valid_lens},
            {"cache_lens", options.cache_lens},
            {"offsets", options.offsets},
            {"bias", options.bias},
            {"mask", options.mask},
            {"alibi_slopes", options.alibi_slopes},
            {"sinks", options.sinks}};
}

Status check_attention(const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                       const SdpaOptions &options, std::span<const NamedView> more_inputs, SdpaCall &call) {
    if (Status s = check_inputs(query, key, value, {"out", out}, options, call); !s.ok()) return s;
    if (options.lse.given()) {
        ConstView lse;
        if (Status s = check_by_query("lse", options.lse, query.rank, call.sizes, lse); !s.ok()) return s;
        call.lse = writable(lse);
    }
    if (Status s = check_weights(options, query.rank, call); !s.ok()) return s;
    std::vector<NamedView> inputs = named_inputs(query, key, value, options);
    inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
    const NamedView outputs[] = {{"out", out}, {"lse", options.lse}, {"weights", options.weights}};
    return check_overlaps(inputs, outputs);
}

}  // namespace attune
