// SPDX-License-Identifier: MIT
// Views of memory that the caller owns. Extents and strides are outermost first, as in C and NumPy; strides are in elements and
// may have any value, 0 and negative ones included, where an operation does not say otherwise. The stride of an extent of one,
// and all strides of a view without elements, are ignored. An extent is at most 2^31 - 1, and so is the absolute stride of an
// extent that is not one; a view as a whole may have more elements. On a device it spans at most 2^31 - 1. Larger views are
// `unsupported`.
#pragma once
#include "attune/detail/api.h"
#include "attune/detail/memory.h"
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>

namespace attune {

enum class DType : std::uint8_t { f32, f64, i32, boolean, bf16, f16, i8, u8, i64 };
enum class Place : std::uint8_t { host, device };

// 16-bit elements. bfloat16: the upper half of a float, 8 bits of exponent and 7 of fraction. float16: IEEE 754 binary16.
struct bfloat16 {
    std::uint16_t bits;
};
struct float16 {
    std::uint16_t bits;
};

// "f32", "f64", "i32", "bool", "bf16", "f16", "i8", "u8", "i64"
ATTUNE_API const char *name_of(DType) noexcept;
// Bytes per element.
ATTUNE_API int size_of(DType) noexcept;

template<typename T>
inline constexpr bool is_element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, bool> ||
    std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, std::int8_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::int64_t>;

template<typename T> constexpr DType dtype_of() {
    static_assert(is_element<T>, "attune: elements are float, double, bfloat16, float16, bool, std::int8_t, std::uint8_t, "
                                 "std::int32_t or std::int64_t");
    if (std::is_same_v<T, float>) return DType::f32;
    if (std::is_same_v<T, double>) return DType::f64;
    if (std::is_same_v<T, bfloat16>) return DType::bf16;
    if (std::is_same_v<T, float16>) return DType::f16;
    if (std::is_same_v<T, std::int8_t>) return DType::i8;
    if (std::is_same_v<T, std::uint8_t>) return DType::u8;
    if (std::is_same_v<T, std::int64_t>) return DType::i64;
    return std::is_same_v<T, bool> ? DType::boolean : DType::i32;
}

inline constexpr int max_rank = 4;

// Extents or strides, outermost first: {2, 10, 4}, or integers known at run time in an array, std::vector, std::array or
// std::span.
class Dims {
public:
    constexpr Dims() = default;
    constexpr Dims(std::initializer_list<std::int64_t> numbers) {
        for (const std::int64_t n : numbers) add(n);
    }
    template<typename Integers, typename Integer = detail::ElementOf<const Integers>,
             typename = std::enable_if_t<std::is_integral_v<Integer> && (sizeof(Integer) > 1)>>
    constexpr Dims(const Integers &numbers) {
        for (std::size_t n = 0; n < std::size(numbers); n++) add(static_cast<std::int64_t>(std::data(numbers)[n]));
    }

    constexpr int rank() const { return rank_; }  // max_rank + 1 for any larger rank
    constexpr std::int64_t operator[](int n) const { return numbers_[n]; }

private:
    constexpr void add(std::int64_t n) {
        if (rank_ < max_rank) numbers_[rank_] = n;
        if (rank_ <= max_rank) rank_++;
    }
    std::int64_t numbers_[max_rank] = {};
    int rank_ = 0;
};

// A view of elements that the caller owns; they must outlive the calls that read or write them. Data is `const void` for inputs
// and `void` for outputs. Rank 0 means: not given.
//
// Elements are a pointer, an array, or a container with data() and size(), such as std::vector, std::array and std::span. The
// size of an array or a container is kept: a call whose view reaches beyond it is refused (invalid_argument), with the number
// of elements that the view needs and the number that exist. The size behind a pointer is not known.
template<typename Data> struct BasicView {
    Data *data = nullptr;
    DType dtype = DType::f32;
    Place place = Place::host;
    int rank = 0;
    std::int64_t extent[max_rank] = {};
    std::int64_t stride[max_rank] = {};
    std::int64_t capacity = -1;  // elements from data on; -1: not known, as for a pointer

    constexpr BasicView() = default;

    // A dense array, such as view(p, {batch, heads, queries, head_dim}). The template takes any Elements, so that wrong ones
    // fail by an assertion here and not in overload resolution, which lists every constructor.
    template<typename Elements> constexpr BasicView(Elements &&elements, const Dims &extents) {
        take(detail::memory_of(elements));
        set_extents(extents);
    }

    // Any strides: view(p, {b, h, s, d}, {s * h * d, d, h * d, 1}) reads an array laid out (b, s, h, d).
    template<typename Elements> constexpr BasicView(Elements &&elements, const Dims &extents, const Dims &strides) {
        take(detail::memory_of(elements));
        set_extents(extents);
        for (int n = 0; n < max_rank && n < rank; n++) stride[n] = strides[n];
        if (strides.rank() != extents.rank()) rank = max_rank + 1;  // reported by the operation as a wrong rank
    }

    // All elements of an array, std::vector, std::array or std::span, as rank 1.
    template<typename Elements, typename Element = detail::ElementOf<std::remove_reference_t<Elements>>,
             typename = std::enable_if_t<is_element<std::remove_const_t<Element>> && std::is_convertible_v<Element *, Data *>>>
    constexpr BasicView(Elements &&elements) : BasicView(elements, {static_cast<std::int64_t>(std::size(elements))}) {}

    // An output may serve as an input.
    template<typename Other, typename = std::enable_if_t<std::is_convertible_v<Other *, Data *>>>
    constexpr BasicView(const BasicView<Other> &other)
        : data(other.data), dtype(other.dtype), place(other.place), rank(other.rank), capacity(other.capacity) {
        for (int n = 0; n < max_rank; n++) extent[n] = other.extent[n], stride[n] = other.stride[n];
    }

    constexpr bool given() const { return rank != 0; }

private:
    template<typename T> constexpr void take(const detail::Memory<T> &memory) {
        static_assert(std::is_convertible_v<T *, Data *> || !is_element<std::remove_const_t<T>>,
                      "attune: an output is written, its elements cannot be const");
        dtype = dtype_of<std::remove_const_t<T>>();
        if constexpr (std::is_convertible_v<T *, Data *>) data = memory.first;
        capacity = memory.size;
    }
    constexpr void set_extents(const Dims &extents) {
        rank = extents.rank();
        std::uint64_t dense = 1;  // wraps where extents are beyond all limits, which the operation reports
        for (int n = rank < max_rank ? rank : max_rank; n-- > 0; dense *= static_cast<std::uint64_t>(extent[n])) {
            extent[n] = extents[n];
            stride[n] = static_cast<std::int64_t>(dense);
        }
    }
};

using View = BasicView<void>;
using ConstView = BasicView<const void>;

// A view of memory on a device: a View, or a ConstView of const elements.
template<typename Elements>
using ViewOf =
    BasicView<std::conditional_t<std::is_const_v<typename decltype(detail::memory_of(std::declval<Elements &>()))::Element>,
                                 const void, void>>;
template<typename Elements> constexpr ViewOf<Elements> device_view(Elements &&elements, const Dims &extents) {
    ViewOf<Elements> view(elements, extents);
    view.place = Place::device;
    return view;
}
template<typename Elements>
constexpr ViewOf<Elements> device_view(Elements &&elements, const Dims &extents, const Dims &strides) {
    ViewOf<Elements> view(elements, extents, strides);
    view.place = Place::device;
    return view;
}

}  // namespace attune
