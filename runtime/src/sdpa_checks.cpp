#include "overlap.h"
#include "sdpa_call.h"
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <limits>

namespace attune {
namespace {

constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();

Status invalid(std::string_view argument, std::string what) {
    return {StatusCode::invalid_argument, std::string(argument) + ": " + std::move(what)};
}
Status unsupported(std::string_view argument, std::string what) {
    return {StatusCode::unsupported, std::string(argument) + ": " + std::move(what)};
}
template<std::integral T> std::string text(T n) { return std::to_string(n); }
std::string text(double x) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%g", x);
    return buffer;
}

std::string shape_of(const ConstView &v) {
    std::string s = "(";
    for (int n = 0; n < v.rank && n < max_rank; n++) s += (n ? ", " : "") + text(v.extent[n]);
    return s + ")";
}

// What holds for a view whatever its role: place, extents, a span and a number of elements that kernels can index, memory.
Status check_memory(std::string_view name, const ConstView &v) {
    if (v.place != Place::host) return unsupported(name, "is on a device; this build computes on the host only");
    __int128 elements = 1, reach = 0;
    for (int n = 0; n < v.rank; n++) {
        if (v.extent[n] < 0) return invalid(name, "extent " + text(n) + " must not be negative, got " + text(v.extent[n]));
        if (v.extent[n] > most_elements)
            return unsupported(name, "extent " + text(n) + " is " + text(v.extent[n]) + ", more than 2^31 - 1");
    }
    for (int n = 0; n < v.rank; n++) {
        elements = std::min(elements * v.extent[n], __int128(1) << 90);
        if (v.extent[n] > 1) {
            const __int128 stride = v.stride[n];
            reach += (v.extent[n] - 1) * (stride < 0 ? -stride : stride);
        }
    }
    if (elements == 0) return {};
    if (elements > most_elements) return unsupported(name, "has the extents " + shape_of(v) + ", more than 2^31 - 1 elements");
    if (reach >= most_elements)
        return unsupported(name, "its strides span more than 2^31 - 1 elements for the extents " + shape_of(v));
    if (!v.data) return invalid(name, "data is null");
    return {};
}

// The same memory as rank 4, (B, H, S, D); a dimension of one element gets the stride that a dense array would have.
Status check_tensor(std::string_view name, const ConstView &v, int rank, DType dtype, BasicView<const void> &as4) {
    if (v.rank != 3 && v.rank != 4) return invalid(name, "rank must be 3 or 4, got " + text(v.rank));
    if (v.rank != rank) return invalid(name, "rank is " + text(v.rank) + ", that of query is " + text(rank));
    if (v.dtype != DType::f32 && v.dtype != DType::f64)
        return invalid(name, std::string("type must be f32 or f64, got ") + name_of(v.dtype));
    if (v.dtype != dtype)
        return invalid(name, std::string("type is ") + name_of(v.dtype) + ", that of query is " + name_of(dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (v.extent[rank - 1] < 1) return invalid(name, "last extent must be at least 1, got " + text(v.extent[rank - 1]));
    if (v.extent[rank - 1] > 1 && v.stride[rank - 1] != 1)
        return invalid(name, "last stride must be 1, got " + text(v.stride[rank - 1]));
    as4 = v;
    if (rank == 3) {
        as4.rank = 4;
        for (int n = 3; n >= 2; n--) as4.extent[n] = v.extent[n - 1], as4.stride[n] = v.stride[n - 1];
        as4.extent[1] = 1;
    }
    for (int n = 3; n >= 0; n--)
        if (as4.extent[n] <= 1) as4.stride[n] = n == 3 ? 1 : 0;
    return {};
}

Status check_extent(std::string_view name, std::string_view what, std::int64_t given, std::string_view other,
                    std::int64_t expected) {
    if (given == expected) return {};
    return invalid(name,
                   std::string(what) + " is " + text(given) + ", that of " + std::string(other) + " is " + text(expected));
}

Status check_heads(std::int64_t query_heads, std::int64_t key_heads) {
    if (key_heads == 0 ? query_heads == 0 : query_heads % key_heads == 0) return {};
    return invalid("key", "number of heads is " + text(key_heads) + ", which must divide the " + text(query_heads) +
                              " heads of query");
}

Status check_sizes(SdpaCall &call) {
    const ConstView &q = call.query, &k = call.key, &v = call.value;
    const View &o = call.out;
    struct Match {
        std::string_view name, what;
        std::int64_t given;
        std::string_view other;
        std::int64_t expected;
    } matches[] = {{"key", "batch (first extent)", k.extent[0], "query", q.extent[0]},
                   {"key", "head size (last extent)", k.extent[3], "query", q.extent[3]},
                   {"value", "batch (first extent)", v.extent[0], "query", q.extent[0]},
                   {"value", "number of heads", v.extent[1], "key", k.extent[1]},
                   {"value", "number of keys", v.extent[2], "key", k.extent[2]},
                   {"out", "batch (first extent)", o.extent[0], "query", q.extent[0]},
                   {"out", "number of heads", o.extent[1], "query", q.extent[1]},
                   {"out", "number of queries", o.extent[2], "query", q.extent[2]},
                   {"out", "head size (last extent)", o.extent[3], "value", v.extent[3]}};
    for (const Match &m : matches)
        if (Status s = check_extent(m.name, m.what, m.given, m.other, m.expected); !s.ok()) return s;
    if (Status s = check_heads(q.extent[1], k.extent[1]); !s.ok()) return s;
    if (q.extent[2] + k.extent[2] > most_elements)
        return unsupported("key",
                           text(q.extent[2]) + " queries and " + text(k.extent[2]) + " keys are more than 2^31 - 1 together");
    call.sizes = {q.dtype, q.extent[0], q.extent[1], k.extent[1], q.extent[2], k.extent[2], q.extent[3], v.extent[3]};
    return {};
}

Status check_ints(std::string_view name, const ConstView &v, std::int64_t batch) {
    if (v.dtype != DType::i32) return invalid(name, std::string("type must be i32, got ") + name_of(v.dtype));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    return check_extent(name, "batch (first extent)", v.extent[0], "query", batch);
}

Status check_lengths(const ConstView &lens, SdpaCall &call) {
    const std::string_view name = "valid_lens";
    if (!lens.given()) return {};
    if (lens.rank != 1 && lens.rank != 2) return invalid(name, "rank must be 1 (B) or 2 (B, Sq), got " + text(lens.rank));
    if (Status s = check_ints(name, lens, call.sizes.batch); !s.ok()) return s;
    call.lengths = lens;
    call.lengths.rank = 2;
    if (lens.rank == 1) {
        call.lengths.extent[1] = call.sizes.queries;
        call.lengths.stride[1] = 0;
    } else if (Status s = check_extent(name, "number of queries (last extent)", lens.extent[1], "query", call.sizes.queries);
               !s.ok()) {
        return s;
    }
    const auto *data = static_cast<const std::int32_t *>(lens.data);
    const std::int64_t columns = lens.rank == 1 ? 1 : lens.extent[1];
    for (std::int64_t b = 0; b < lens.extent[0]; b++)
        for (std::int64_t i = 0; i < columns; i++) {
            const std::int32_t n = data[b * lens.stride[0] + (lens.rank == 2 ? i * lens.stride[1] : 0)];
            if (n < 0 || n > call.sizes.keys)
                return invalid(name, "entry (" + text(b) + (lens.rank == 2 ? ", " + text(i) : "") + ") is " + text(n) +
                                         ", must be from 0 to " + text(call.sizes.keys) + ", the number of keys");
        }
    return {};
}

// The bands of keys that causal, window and offset leave, conventions.md rows 5 and 6.
Status check_bands(const SdpaOptions &options, SdpaCall &call) {
    const std::int64_t queries = call.sizes.queries, keys = call.sizes.keys;
    for (const auto &[side, value] : {std::pair("left", options.window.left), std::pair("right", options.window.right)})
        if (value < -1) return invalid("window", std::string(side) + " must be at least -1 (unbounded), got " + text(value));
    if (options.offset && options.offsets.given()) return invalid("offsets", "given beside offset; give one of them");
    if (options.causal == Causal::offset && !options.offset && !options.offsets.given())
        return invalid("offset", "must be given with Causal::offset");
    if (options.offsets.given()) {
        if (options.offsets.rank != 1) return invalid("offsets", "rank must be 1 (B), got " + text(options.offsets.rank));
        if (Status s = check_ints("offsets", options.offsets, call.sizes.batch); !s.ok()) return s;
    }
    const std::size_t count = options.offsets.given() ? static_cast<std::size_t>(call.sizes.batch) : 1;
    for (std::size_t b = 0; b < count; b++) {
        __int128 off = options.causal == Causal::bottom_right ? keys - queries : 0;
        if (options.offset) off = *options.offset;
        if (options.offsets.given())
            off = static_cast<const std::int32_t *>(
                options.offsets.data)[static_cast<std::int64_t>(b) * options.offsets.stride[0]];
        __int128 right = options.window.right;
        if (options.causal != Causal::none) right = right < 0 ? 0 : std::min<__int128>(right, 0);
        // Beyond these ends nothing changes, and within them 32 bits suffice.
        auto clamp = [&](__int128 x) { return static_cast<std::int32_t>(std::clamp<__int128>(x, -queries, keys)); };
        call.band_begin.push_back(options.window.left < 0 ? clamp(-queries) : clamp(off - options.window.left));
        call.band_end.push_back(right < 0 ? clamp(keys) : clamp(off + right + 1));
        call.offset.push_back(clamp(off));
    }
    return {};
}

Status check_lse(const View &lse, int rank, SdpaCall &call) {
    if (!lse.given()) return {};
    const SdpaProblem &p = call.sizes;
    if (lse.rank != rank - 1)
        return invalid("lse", "rank must be " + text(rank - 1) + ", one less than that of query, got " + text(lse.rank));
    if (lse.dtype != p.dtype)
        return invalid("lse", std::string("type is ") + name_of(lse.dtype) + ", that of query is " + name_of(p.dtype));
    if (Status s = check_memory("lse", lse); !s.ok()) return s;
    call.lse = lse;
    if (rank == 3) {
        call.lse.rank = 3;
        call.lse.extent[2] = lse.extent[1], call.lse.stride[2] = lse.stride[1];
        call.lse.extent[1] = 1, call.lse.stride[1] = 0;
    }
    if (Status s = check_extent("lse", "batch (first extent)", call.lse.extent[0], "query", p.batch); !s.ok()) return s;
    if (Status s = check_extent("lse", "number of heads", call.lse.extent[1], "query", p.query_heads); !s.ok()) return s;
    return check_extent("lse", "number of queries", call.lse.extent[2], "query", p.queries);
}

Status check_overlaps(const SdpaOptions &options, const SdpaCall &call) {
    struct Named {
        std::string_view name;
        ConstView view;
    } inputs[] = {{"query", call.query},
                  {"key", call.key},
                  {"value", call.value},
                  {"valid_lens", options.valid_lens},
                  {"offsets", options.offsets}};
    const Named outputs[] = {{"out", call.out}, {"lse", call.lse}};
    for (const Named &o : outputs) {
        if (!o.view.given()) continue;
        if (overlaps_itself(o.view)) return invalid(o.name, "its strides let elements overlap each other");
        for (const Named &in : inputs)
            if (in.view.given() && overlap(o.view, in.view)) return invalid(o.name, "overlaps " + std::string(in.name));
    }
    if (call.lse.given() && overlap(call.out, call.lse)) return invalid("lse", "overlaps out");
    return {};
}

}  // namespace

Status check_problem(const SdpaProblem &p) {
    struct Size {
        std::string_view name;
        std::int64_t value, least;
    } sizes[] = {
        {"batch", p.batch, 0}, {"query_heads", p.query_heads, 0}, {"key_heads", p.key_heads, 0}, {"queries", p.queries, 0},
        {"keys", p.keys, 0},   {"head_dim", p.head_dim, 1},       {"value_dim", p.value_dim, 1}};
    for (const Size &s : sizes)
        if (s.value < s.least || s.value > most_elements)
            return invalid(s.name, "must be from " + text(s.least) + " to 2^31 - 1, got " + text(s.value));
    if (p.dtype == DType::i32) return invalid("dtype", "must be f32 or f64, got i32");
    return check_heads(p.query_heads, p.key_heads);
}

Status check_sdpa(const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                  const SdpaOptions &options, SdpaCall &call) {
    const int rank = query.rank;
    ConstView out4;
    if (Status s = check_tensor("query", query, rank, query.dtype, call.query); !s.ok()) return s;
    if (Status s = check_tensor("key", key, rank, query.dtype, call.key); !s.ok()) return s;
    if (Status s = check_tensor("value", value, rank, query.dtype, call.value); !s.ok()) return s;
    if (Status s = check_tensor("out", out, rank, query.dtype, out4); !s.ok()) return s;
    call.out.data = out.data, call.out.dtype = out.dtype, call.out.rank = 4;
    std::copy_n(out4.extent, max_rank, call.out.extent);
    std::copy_n(out4.stride, max_rank, call.out.stride);
    if (Status s = check_sizes(call); !s.ok()) return s;
    if (options.scale && !std::isfinite(*options.scale)) return invalid("scale", "must be finite, got " + text(*options.scale));
    call.scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(call.sizes.head_dim));
    if (Status s = check_bands(options, call); !s.ok()) return s;
    if (Status s = check_lengths(options.valid_lens, call); !s.ok()) return s;
    if (Status s = check_lse(options.lse, rank, call); !s.ok()) return s;
    return check_overlaps(options, call);
}

}  // namespace attune
