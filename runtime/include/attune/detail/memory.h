// SPDX-License-Identifier: MIT
// The memory of a view: a pointer, or a container with data() and size().
#pragma once
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace attune::detail {

// The element type of an array, or of a container with data().
template<typename Elements> using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<Elements &>()))>;

template<typename Elements, typename = void> inline constexpr bool has_elements = false;
template<typename Elements>
inline constexpr bool
    has_elements<Elements, std::void_t<ElementOf<Elements>, decltype(std::size(std::declval<Elements &>()))>> = true;

template<typename T> struct Memory {
    using Element = T;
    T *first;
    std::int64_t size;  // elements; -1: not known
};

template<typename Elements> constexpr auto memory_of(Elements &elements) {
    static_assert(std::is_pointer_v<Elements> || has_elements<Elements>,
                  "attune: elements are a pointer, an array, or have data() and size() as std::vector has");
    if constexpr (std::is_pointer_v<Elements>)
        return Memory<std::remove_pointer_t<Elements>>{elements, -1};
    else if constexpr (has_elements<Elements>)
        return Memory<ElementOf<Elements>>{std::data(elements), static_cast<std::int64_t>(std::size(elements))};
    else
        return Memory<float>{nullptr, -1};
}

}  // namespace attune::detail
