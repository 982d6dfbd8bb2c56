// Views of memory that the caller owns. Extents and strides are outermost first, as in C and NumPy; strides are in
// elements and may be anything, also 0 or negative, where an operation does not say otherwise. The stride of an extent of one,
// and all of a view without elements, mean nothing. Kernels index with 32 bits: a view has at most 2^31 - 1 elements, and so
// far is its last from its first; extent times |stride| is at most 2^31 - 1, too, where an extent is not one. What goes beyond
// is `unsupported`. (2^31 elements of f32 are 8 GiB, of bf16 and f16 4 GiB.)
#pragma once
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace attune {

enum class DType : std::uint8_t { f32, f64, i32, boolean, bf16, f16 };
enum class Place : std::uint8_t { host, device };

// An element of 16 bits: 8 bits of exponent and 7 of fraction, as the upper half of a float; IEEE 754 binary16.
struct bfloat16 {
    std::uint16_t bits;
};
struct float16 {
    std::uint16_t bits;
};

// "f32", "f64", "i32", "bool", "bf16", "f16"
const char *name_of(DType) noexcept;
// Bytes of an element.
int size_of(DType) noexcept;

template<typename T>
inline constexpr bool is_element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, bool> ||
    std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

template<typename T> constexpr DType dtype_of() {
    static_assert(is_element<T>, "attune: elements are float, double, bfloat16, float16, std::int32_t or bool");
    if (std::is_same_v<T, float>) return DType::f32;
    if (std::is_same_v<T, double>) return DType::f64;
    if (std::is_same_v<T, bfloat16>) return DType::bf16;
    if (std::is_same_v<T, float16>) return DType::f16;
    return std::is_same_v<T, bool> ? DType::boolean : DType::i32;
}

inline constexpr int max_rank = 4;

// Data is `const void` for inputs and `void` for outputs. Rank 0 means: not given.
template<typename Data> struct BasicView {
    Data *data = nullptr;
    DType dtype = DType::f32;
    Place place = Place::host;
    int rank = 0;
    std::int64_t extent[max_rank] = {};
    std::int64_t stride[max_rank] = {};

    constexpr BasicView() = default;

    // A dense array, such as view(p, {batch, heads, queries, head_dim}). Of any T, so that other elements fail by an assertion here
    // and not in overload resolution, which lists every constructor.
    template<typename T>
    constexpr BasicView(T *elements, std::initializer_list<std::int64_t> extents)
        : data(checked(elements)), dtype(dtype_of<std::remove_const_t<T>>()), rank(static_cast<int>(extents.size())) {
        int n = 0;
        for (std::int64_t e : extents)
            if (n < max_rank) extent[n++] = e;
        std::int64_t dense = 1;
        while (n-- > 0) stride[n] = dense, dense *= extent[n];
    }

    // Any strides: view(p, {b, h, s, d}, {s * h * d, d, h * d, 1}) reads an array laid out (b, s, h, d).
    template<typename T>
    constexpr BasicView(T *elements, std::initializer_list<std::int64_t> extents, std::initializer_list<std::int64_t> strides)
        : BasicView(elements, extents) {
        int n = 0;
        for (std::int64_t s : strides)
            if (n < max_rank) stride[n++] = s;
        if (strides.size() != extents.size()) rank = max_rank + 1;  // reported by the operation as a wrong rank
    }

    // An output may serve as an input.
    template<typename Other, typename = std::enable_if_t<std::is_convertible_v<Other *, Data *>>>
    constexpr BasicView(const BasicView<Other> &other)
        : data(other.data), dtype(other.dtype), place(other.place), rank(other.rank) {
        for (int n = 0; n < max_rank; n++) extent[n] = other.extent[n], stride[n] = other.stride[n];
    }

    constexpr bool given() const { return rank != 0; }

private:
    template<typename T> static constexpr Data *checked(T *elements) {
        static_assert(std::is_convertible_v<T *, Data *>, "attune: an output is written, its elements cannot be const");
        if constexpr (std::is_convertible_v<T *, Data *>) return elements;
        return nullptr;
    }
};

using View = BasicView<void>;
using ConstView = BasicView<const void>;

}  // namespace attune
