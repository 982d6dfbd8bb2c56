// SPDX-License-Identifier: MIT
// A replacement of std::span, which C++17 lacks.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace attune::detail {

// A view of contiguous elements that the caller owns.
template<typename T> class ArrayView {
public:
    constexpr ArrayView() = default;
    constexpr ArrayView(T *data, std::size_t size) : data_(data), size_(size) {}
    template<std::size_t count> constexpr ArrayView(T (&array)[count]) : ArrayView(array, count) {}
    // From a vector or a std::span.
    template<typename Elements,
             typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Elements &>().data()), T *>>>
    constexpr ArrayView(Elements &&elements) : ArrayView(elements.data(), elements.size()) {}

    constexpr T *data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr T *begin() const { return data_; }
    constexpr T *end() const { return data_ + size_; }
    constexpr T &operator[](std::size_t n) const { return data_[n]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace attune::detail
