// SPDX-License-Identifier: MIT
// Pools of pages that hold the keys and values of many sequences (PagedAttention, Kwon et al., 2023), as numbers or quantised.
#pragma once
#include "attune/tensor.h"

namespace attune {

// Keys, or values. A page is `page` rows, a multiple of 16, or 1: a table of pages is then a list of rows, and a pool
// (P, page, Hkv, D) without gaps may be viewed as (P * page, 1, Hkv, D) by calls that take such lists. Pages of a pool laid out
// (P, Hkv, page, D) are viewed by strides.
//
//   rows (P, page, Hkv, D): f32, f64, bf16 or f16
//   rows (P, page, Hkv, D): i8, x = q * scale. scale is f32 or f16 (P, page, Hkv), one for each row and head; or f32 (1), or
//     (Hkv, D), the caller's own
//   rows (P, page, Hkv, D / 2): u8, two channels a byte, the even one in the low four bits; x = minimum + q * scale. scale and
//     minimum are f16 (P, page, Hkv, G), one for each group of D / G channels: 32, 64 or D of them
//
// Last strides of rows, and of scale and minimum of u8, are 1; the stride of a page is a multiple of that of a row, the same
// multiple for all views where attention reads them. A scale of the caller's own is more than 0. Those of rows are data: one
// that is NaN makes its row NaN.
template<typename V> struct BasicPages {
    V rows = {}, scale = {}, minimum = {};

    BasicPages() = default;
    BasicPages(const V &rows, const V &scale = {}, const V &minimum = {}) : rows(rows), scale(scale), minimum(minimum) {}
    template<typename Other, typename = std::enable_if_t<std::is_convertible_v<Other, V>>>
    BasicPages(const BasicPages<Other> &other) : rows(other.rows), scale(other.scale), minimum(other.minimum) {}
};
using Pages = BasicPages<View>;
using ConstPages = BasicPages<ConstView>;

}  // namespace attune
