// SPDX-License-Identifier: MIT
#include "tensors/checks.h"
#include "tensors/overlap.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace attune {

Status invalid(std::string_view argument, std::string what) {
    return {StatusCode::invalid_argument, std::string(argument) + ": " + std::move(what)};
}
Status unsupported(std::string_view argument, std::string what) {
    return {StatusCode::unsupported, std::string(argument) + ": " + std::move(what)};
}

Status no_memory() { return {StatusCode::out_of_memory, "the allocator has no memory for this call"}; }

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

// Checks that a view stays within its memory, where the size of that is known.
static Status check_capacity(std::string_view name, const ConstView &v) {
    if (v.capacity < 0) return {};
    std::int64_t first = 0, last = 0;
    for (int n = 0; n < v.rank; n++)
        if (v.extent[n] > 1) (v.stride[n] < 0 ? first : last) += (v.extent[n] - 1) * v.stride[n];
    if (first < 0) return invalid(name, "its strides reach " + text(-first) + " elements before the first of its memory");
    if (last < v.capacity) return {};
    return invalid(name, "extents " + shape_of(v) + " with their strides need " + text(last + 1) +
                             " elements, the memory has " + text(v.capacity));
}

static __int128 distance(std::int64_t stride) { return stride < 0 ? -static_cast<__int128>(stride) : stride; }

Status check_memory(std::string_view name, const ConstView &v) {
    if (v.place != Place::host) return unsupported(name, "is on a device; this function computes on the host only");
    __int128 elements = 1, reach = 0;
    for (int n = 0; n < v.rank; n++) {
        if (v.extent[n] < 0) return invalid(name, "extent " + text(n) + " must not be negative, got " + text(v.extent[n]));
        if (v.extent[n] > most_extent)
            return unsupported(name, "extent " + text(n) + " is " + text(v.extent[n]) + ", more than 2^31 - 1");
    }
    for (int n = 0; n < v.rank; n++) elements = std::min(elements * v.extent[n], __int128(1) << 90);
    if (elements == 0) return {};
    // Within an address, so that no product of a kernel overflows.
    constexpr __int128 most = __int128(1) << 56;
    for (int n = 0; n < v.rank; n++) {
        if (v.extent[n] == 1) continue;
        const __int128 stride = distance(v.stride[n]);
        reach += v.extent[n] * stride;
        if (stride > most_extent)
            return unsupported(name, "stride " + text(n) + " is " + text(v.stride[n]) +
                                         ", more than 2^31 - 1 elements: the call may be made for parts of that dimension");
    }
    if (elements > most || reach > most)
        return unsupported(name, "has the extents " + shape_of(v) + ", which with its strides span more than memory has");
    if (Status s = check_capacity(name, v); !s.ok()) return s;
    if (!v.data) return invalid(name, "data is null");
    return {};
}

bool has_32_bit_places(const ConstView &v) {
    if (!v.given() || elements_of(v) == 0) return true;
    __int128 elements = 1, reach = 0;
    for (int n = 0; n < v.rank; n++) {
        elements *= v.extent[n];
        // Kernels compute the end of a dimension, one stride behind its last element.
        if (v.extent[n] > 1) reach += v.extent[n] * distance(v.stride[n]);
    }
    return elements <= most_extent && reach <= most_extent;
}

Status check_32_bit_places(std::span<const NamedView> views, std::string_view kernels) {
    for (const auto &[name, v] : views)
        if (!has_32_bit_places(v))
            return unsupported(name, "has the extents " + shape_of(v) +
                                         ", which with its strides span more than 2^31 - 1 elements: " + std::string(kernels) +
                                         " take no more");
    return {};
}

std::int64_t elements_of(const ConstView &v) {
    for (int n = 0; n < v.rank; n++)
        if (v.extent[n] == 0) return 0;
    std::int64_t elements = 1;
    for (int n = 0; n < v.rank; n++) elements *= v.extent[n];
    return elements;
}

Status check_number(std::string_view name, double x, DType type) {
    if (!std::isfinite(x)) return invalid(name, "must be finite, got " + text(x));
    if (sum_type(type) == DType::f64) return {};
    const auto narrow = static_cast<float>(x);
    if (std::isfinite(narrow) && (narrow != 0 || x == 0)) return {};
    return invalid(name, "is " + text(x) + ", which f32 cannot hold: kernels would compute with " +
                             text(static_cast<double>(narrow)));
}

Status check_real(std::string_view name, const ConstView &v) {
    if (v.dtype == sum_type(v.dtype) || v.dtype == DType::bf16 || v.dtype == DType::f16) return {};
    return invalid(name, std::string("type must be f32, f64, bf16 or f16, got ") + name_of(v.dtype));
}

Status check_wide(std::string_view name, const ConstView &v) {
    if (v.dtype == sum_type(v.dtype)) return {};
    return invalid(name, std::string("type must be f32 or f64, got ") + name_of(v.dtype));
}

Status check_wide_for(std::string_view what, std::string_view name, DType given) {
    if (given != DType::bf16 && given != DType::f16) return {};
    return unsupported(name, std::string(what) + " takes f32 or f64, got " + name_of(given));
}

Status check_same_type(std::string_view name, DType given, std::string_view other, DType expected) {
    if (given == expected) return {};
    return invalid(name,
                   std::string("type is ") + name_of(given) + ", that of " + std::string(other) + " is " + name_of(expected));
}

Status check_extent(std::string_view name, std::string_view what, std::int64_t given, std::string_view other,
                    std::int64_t expected) {
    if (given == expected) return {};
    return invalid(name,
                   std::string(what) + " is " + text(given) + ", that of " + std::string(other) + " is " + text(expected));
}

Status check_extents(std::span<const ExtentMatch> matches) {
    for (const ExtentMatch &m : matches)
        if (Status s = check_extent(m.name, m.what, m.given, m.other, m.expected); !s.ok()) return s;
    return {};
}

Status check_ints(std::string_view name, const ConstView &v) {
    if (v.dtype != DType::i32) return invalid(name, std::string("type must be i32, got ") + name_of(v.dtype));
    return check_memory(name, v);
}

Status check_dense(std::string_view name, const ConstView &v) {
    if (v.extent[v.rank - 1] <= 1 || v.stride[v.rank - 1] == 1) return {};
    return invalid(name, "last stride must be 1, got " + text(v.stride[v.rank - 1]));
}

template<typename Data> BasicView<Data> as_rank4(const BasicView<Data> &v, bool heads_second) {
    BasicView<Data> w = v;
    w.rank = 4;
    for (int n = 0; n < 4; n++) w.extent[n] = 1, w.stride[n] = 0;
    for (int n = 0; n < v.rank; n++) {
        const int to = heads_second && v.rank == 3 && n == 0 ? 0 : 4 - v.rank + n;
        w.extent[to] = v.extent[n], w.stride[to] = v.stride[n];
    }
    for (int n = 0; n < 4; n++)
        if (w.extent[n] <= 1) w.stride[n] = n == 3 ? 1 : 0;
    return w;
}
template BasicView<void> as_rank4(const BasicView<void> &, bool);
template BasicView<const void> as_rank4(const BasicView<const void> &, bool);

Status check_row_ints(std::string_view name, const ConstView &lens, std::string_view other, std::int64_t batch,
                      std::int64_t rows, ConstView &as2) {
    if (lens.rank != 1 && lens.rank != 2) return invalid(name, "rank must be 1 (B) or 2 (B, Sq), got " + text(lens.rank));
    if (Status s = check_ints(name, lens); !s.ok()) return s;
    if (Status s = check_extent(name, "batch (first extent)", lens.extent[0], other, batch); !s.ok()) return s;
    as2 = lens;
    as2.rank = 2;
    if (lens.rank == 1) as2.extent[1] = rows;
    if (lens.rank == 1 || rows == 1) as2.stride[1] = 0;
    if (lens.rank == 1) return {};
    return check_extent(name, "number of queries (last extent)", lens.extent[1], other, rows);
}

Status check_valid_lens(const ConstView &lens, std::string_view other, std::int64_t batch, std::int64_t rows, std::int64_t keys,
                        ConstView &as2) {
    const std::string_view name = "valid_lens";
    if (Status s = check_row_ints(name, lens, other, batch, rows, as2); !s.ok()) return s;
    const auto *data = static_cast<const std::int32_t *>(lens.data);
    const std::int64_t columns = lens.rank == 1 ? 1 : lens.extent[1];
    for (std::int64_t b = 0; b < lens.extent[0]; b++)
        for (std::int64_t i = 0; i < columns; i++) {
            const std::int32_t n = data[b * lens.stride[0] + (lens.rank == 2 ? i * lens.stride[1] : 0)];
            if (n < 0 || n > keys)
                return invalid(name, "entry (" + text(b) + (lens.rank == 2 ? ", " + text(i) : "") + ") is " + text(n) +
                                         ", must be from 0 to " + text(keys) + ", the number of keys");
        }
    return {};
}

void fill_zeros(const View &v) {
    const std::int64_t size = size_of(v.dtype);
    if (elements_of(v) == 0) return;
    for (std::int64_t b = 0; b < v.extent[0]; b++)
        for (std::int64_t h = 0; h < v.extent[1]; h++)
            for (std::int64_t i = 0; i < v.extent[2]; i++)
                std::memset(static_cast<char *>(v.data) + size * (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]), 0,
                            static_cast<std::size_t>(v.extent[3] * size));
}

Status check_overlaps(std::span<const NamedView> inputs, std::span<const NamedView> outputs) {
    for (std::size_t n = 0; n < outputs.size(); n++) {
        const NamedView &o = outputs[n];
        if (!o.view.given()) continue;
        if (overlaps_itself(o.view)) return invalid(o.name, "its strides let elements overlap each other");
        for (const NamedView &in : inputs)
            if (in.view.given() && overlap(o.view, in.view)) return invalid(o.name, "overlaps " + std::string(in.name));
        for (const NamedView &other : outputs.first(n))
            if (other.view.given() && overlap(o.view, other.view))
                return invalid(o.name, "overlaps " + std::string(other.name));
    }
    return {};
}

}  // namespace attune
