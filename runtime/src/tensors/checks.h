// SPDX-License-Identifier: MIT
// Checks common to the ops. Messages name the argument as the public headers do.
#pragma once
#include "attune/status.h"
#include "attune/tensor.h"
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace attune {

// Largest extent and stride: Halide's buffers hold each in 32 bits. Places in a buffer have 64.
constexpr std::int64_t most_extent = std::numeric_limits<std::int32_t>::max();

Status invalid(std::string_view argument, std::string what);
Status unsupported(std::string_view argument, std::string what);
// Status of a failed allocation by the Context's allocator.
Status no_memory();

template<std::integral T> std::string text(T n) { return std::to_string(n); }
std::string text(double x);
// "(2, 3)"
std::string shape_of(const ConstView &);

// The type in which sums over elements of a type, lse included, are kept: f64 for f64, else f32.
constexpr DType sum_type(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }
constexpr bool is_widened(DType t) { return sum_type(t) != t; }

// Number of parts of `size` into which n is divided, the last of which may be smaller.
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

struct NamedView {
    std::string_view name;
    ConstView view;  // may be not given
};

// Checks a view whatever its role: place, extents and strides that kernels can hold and, where its size is known, the memory.
Status check_memory(std::string_view name, const ConstView &);
// Whether kernels that compute places with 32 bits, those for devices and those of AMX, can index a view that passed
// check_memory().
bool has_32_bit_places(const ConstView &);
// Refuses the first of some views that such kernels cannot index: "... <kernels> take no more".
inline constexpr std::string_view kernels_of_amx = "kernels of AMX", kernels_for_a_device = "kernels for a device";
Status check_32_bit_places(std::span<const NamedView>, std::string_view kernels);
// Number of elements of a view that passed check_memory().
std::int64_t elements_of(const ConstView &);

// Checks a number that kernels read in the type of sums of this type: finite there, and 0 only if it is 0.
Status check_number(std::string_view name, double, DType);

// Checks for f32, f64, bf16 or f16.
Status check_real(std::string_view name, const ConstView &);
// Checks for f32 or f64.
Status check_wide(std::string_view name, const ConstView &);
// Checks for f32 or f64 where only `what` has no kernels of 16 bits: "<name>: <what> takes f32 or f64, got bf16"
Status check_wide_for(std::string_view what, std::string_view name, DType);
// "<name>: type is ..., that of <other> is ..."
Status check_same_type(std::string_view name, DType given, std::string_view other, DType expected);
// "<name>: <what> is ..., that of <other> is ..."
Status check_extent(std::string_view name, std::string_view what, std::int64_t given, std::string_view other,
                    std::int64_t expected);
// Extents to compare; check_extents() returns the first mismatch.
struct ExtentMatch {
    std::string_view name, what;
    std::int64_t given;
    std::string_view other;
    std::int64_t expected;
};
Status check_extents(std::span<const ExtentMatch>);
// Checks that the last dimension is dense.
Status check_dense(std::string_view name, const ConstView &);

// A view as rank 4, with extents of 1 in front; a dimension of one element gets the stride of a dense array. Rank 3 is (B, S,
// D) and becomes (B, 1, S, D) where `heads_second`.
template<typename Data> BasicView<Data> as_rank4(const BasicView<Data> &, bool heads_second);

// Points a view at other memory, such as scratch, and drops the checked size, which is that of the caller's memory.
template<typename Data, typename Memory> void move_to(BasicView<Data> &v, Memory *memory) { v.data = memory, v.capacity = -1; }

// Part of a view: `count` of dimension n, from `first` on.
template<typename Data> BasicView<Data> part_of(BasicView<Data> v, int n, std::int64_t first, std::int64_t count) {
    using Bytes = std::conditional_t<std::is_const_v<Data>, const char, char>;
    v.data = static_cast<Bytes *>(v.data) + first * v.stride[n] * size_of(v.dtype);
    v.extent[n] = count;
    return v;
}
// Entry n of the first dimension, without that dimension.
template<typename Data> BasicView<Data> entry_of(const BasicView<Data> &v, std::int64_t n) {
    BasicView<Data> w = part_of(v, 0, n, 1);
    w.rank = v.rank - 1;
    for (int d = 0; d < w.rank; d++) w.extent[d] = v.extent[d + 1], w.stride[d] = v.stride[d + 1];
    return w;
}
// A dense view of rank 4.
inline View dense_view(void *memory, DType type, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
    View v(static_cast<float *>(memory), {b, h, s, d});
    v.dtype = type;
    return v;
}

// Checks int32 (B) or (B, rows), whatever the elements; `as2` is the same memory as (B, rows).
Status check_row_ints(std::string_view name, const ConstView &, std::string_view other, std::int64_t batch, std::int64_t rows,
                      ConstView &as2);
// Checks valid_lens in the same way, and each element to be from 0 to `keys`.
Status check_valid_lens(const ConstView &lens, std::string_view other, std::int64_t batch, std::int64_t rows, std::int64_t keys,
                        ConstView &as2);

// Checks for int32, and as check_memory(); int_at() is element (n) of such a view.
Status check_ints(std::string_view name, const ConstView &);
inline std::int32_t int_at(const ConstView &v, std::int64_t n) {
    return static_cast<const std::int32_t *>(v.data)[n * v.stride[0]];
}

// Sets all elements of a view of rank 4 with a dense last dimension to 0, as bytes.
void fill_zeros(const View &);

// Joins dimensions 0 and 1 to dimension 2, the rows, where all of these views, of rank 3 or 4 with equal leading extents, allow
// that: dimensions contiguous in memory, of extent 1, or outside of a single row, whose place they take.
template<typename First, typename... Rest> void join_rows(First &first, Rest &...rest) {
    constexpr int rows = 2;
    for (int n = rows - 1; n >= 0; n--) {
        const bool one_row = first.extent[rows] == 1;
        const auto follows = [=](const auto &v) { return v.stride[n] == v.stride[rows] * v.extent[rows]; };
        if (first.extent[n] != 1 && !one_row && !(follows(first) && ... && follows(rest))) return;
        const auto join = [=](auto &v) {
            if (one_row) v.stride[rows] = v.stride[n];
            v.extent[rows] *= v.extent[n];
            v.extent[n] = 1, v.stride[n] = 0;
        };
        join(first), (join(rest), ...);
    }
}

// Checks that no output overlaps itself, an input or another output.
Status check_overlaps(std::span<const NamedView> inputs, std::span<const NamedView> outputs);

}  // namespace attune
