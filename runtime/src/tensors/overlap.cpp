// SPDX-License-Identifier: MIT
#include "tensors/overlap.h"
#include <numeric>

namespace attune {
namespace {

// A view as rows of bytes that repeat with a few strides, innermost first; dimensions that continue each other are merged.
struct Rows {
    std::intptr_t begin = 0;
    std::int64_t row = 0;  // bytes
    struct Repeat {
        std::int64_t count, stride;  // stride > 0, bytes
    } repeat[max_rank];
    int repeats = 0;
    bool empty = false;
    bool broadcast = false;  // some dimension of several elements has stride 0
};

// Rows of a view whose span fits an address, so that no product or sum here overflows.
Rows rows_of(const ConstView &v) {
    Rows r;
    r.begin = reinterpret_cast<std::intptr_t>(v.data);
    r.row = size_of(v.dtype);
    for (int n = 0; n < v.rank; n++) {
        const std::int64_t count = v.extent[n];
        std::int64_t stride = v.stride[n] * size_of(v.dtype);
        if (count == 0) r.empty = true;
        if (count <= 1) continue;
        if (stride == 0) {
            r.broadcast = true;
            continue;
        }
        if (stride < 0) r.begin += (count - 1) * stride, stride = -stride;
        int at = r.repeats++;
        for (; at > 0 && r.repeat[at - 1].stride > stride; at--) r.repeat[at] = r.repeat[at - 1];
        r.repeat[at] = {count, stride};
    }
    int kept = 0;
    for (int n = 0; n < r.repeats; n++) {
        if (kept == 0 && r.repeat[n].stride == r.row)
            r.row *= r.repeat[n].count;
        else
            r.repeat[kept++] = r.repeat[n];
    }
    r.repeats = kept;
    return r;
}

// Addresses from the first element to one past the last; equal if there are none.
struct Span {
    std::intptr_t begin = 0, end = 0;
};

// The span of a view; false if it does not fit an address.
bool span_of(const ConstView &v, Span &span) {
    __int128 low = 0, high = 0;
    for (int n = 0; n < v.rank; n++) {
        if (v.extent[n] == 0) {
            span = {};
            return true;
        }
        const __int128 reach = static_cast<__int128>(v.extent[n] - 1) * v.stride[n];
        (reach < 0 ? low : high) += reach;
    }
    const __int128 size = size_of(v.dtype), most = __int128(1) << 60;
    if (high > most / size || low < -most / size) return false;
    const auto base = reinterpret_cast<std::intptr_t>(v.data);
    span = {base + static_cast<std::intptr_t>(low * size), base + static_cast<std::intptr_t>((high + 1) * size)};
    return true;
}

}  // namespace

bool overlap(const ConstView &a, const ConstView &b) {
    Span sa, sb;
    if (!span_of(a, sa) || !span_of(b, sb)) return true;
    if (sa.begin == sa.end || sb.begin == sb.end || sa.end <= sb.begin || sb.end <= sa.begin) return false;
    // Interleaved slices of one buffer: modulo the common divisor of all strides, each view is one interval of bytes.
    const Rows ra = rows_of(a), rb = rows_of(b);
    std::int64_t period = 0;
    for (const Rows *r : {&ra, &rb})
        for (int n = 0; n < r->repeats; n++) period = std::gcd(period, r->repeat[n].stride);
    if (period == 0 || ra.row > period || rb.row > period) return true;
    auto modulo = [&](std::intptr_t x) { return (x % period + period) % period; };
    const std::int64_t from_a = modulo(rb.begin - ra.begin), from_b = modulo(ra.begin - rb.begin);
    return from_a < ra.row || from_b < rb.row;
}

bool same_memory(const ConstView &a, const ConstView &b) {
    if (a.data != b.data) return false;
    for (int n = 0; n < a.rank; n++)
        if (a.extent[n] > 1 && a.stride[n] != b.stride[n]) return false;
    return true;
}

bool overlaps_itself(const ConstView &v) {
    Span span;
    if (!span_of(v, span)) return true;
    const Rows r = rows_of(v);
    if (r.empty) return false;
    if (r.broadcast) return true;
    std::int64_t inner = r.row;  // bytes spanned by the dimensions so far
    for (int n = 0; n < r.repeats; n++) {
        if (r.repeat[n].stride < inner) return true;
        inner += (r.repeat[n].count - 1) * r.repeat[n].stride;
    }
    return false;
}

}  // namespace attune
