// SPDX-License-Identifier: MIT
// Common parts of masked_softmax and its gradient: rows of scores, their checks, and their division into tasks.
#pragma once
#include "attune/masked_softmax.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include <algorithm>
#include <array>
#include <utility>

namespace attune {

// Checks rank, type and memory and, where `of` is another view, that type and extents agree with it.
inline Status check_softmax_rows(std::string_view name, const ConstView &v, std::string_view of_name, const ConstView &of) {
    if (of_name.empty()) {
        if (v.rank < 2 || v.rank > max_rank) return invalid(name, "rank must be from 2 to 4, got " + text(v.rank));
        if (Status s = check_wide(name, v); !s.ok()) return s;
    } else {
        if (v.rank != of.rank)
            return invalid(name, "rank is " + text(v.rank) + ", that of " + std::string(of_name) + " is " + text(of.rank));
        if (Status s = check_same_type(name, v.dtype, of_name, of.dtype); !s.ok()) return s;
    }
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (Status s = check_dense(name, v); !s.ok()) return s;
    for (int n = 0; n < v.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], of_name, of.extent[n]); !s.ok()) return s;
    return {};
}

inline Status check_fill(MaskFill fill) {
    if (fill == MaskFill::zero || fill == MaskFill::seed) return {};
    return invalid("fill", "must be 0 or 1, got " + text(static_cast<int>(fill)));
}

template<typename Data> void exchange(BasicView<Data> &v, int n, int with) {
    std::swap(v.extent[n], v.extent[with]);
    std::swap(v.stride[n], v.stride[with]);
}

// A view as (B, H, Sq, Sk); rank 2 is (B, Sk).
template<typename Data> BasicView<Data> softmax_rows(const BasicView<Data> &v) {
    BasicView<Data> w = as_rank4(v, true);
    if (v.rank == 2) exchange(w, 0, 2);
    return w;
}

// Exchanges dimension Sq, whose rows are divided into tasks, with a longer one where it has one row.
template<typename... Views> void take_longer_dimension(ConstView &lengths, View &out, Views &...inputs) {
    if (out.extent[2] != 1) return;
    const int other = out.extent[1] == 1 ? 0 : 1;
    exchange(out, other, 2), (exchange(inputs, other, 2), ...);
    if (other == 0)
        exchange(lengths, 0, 1);
    else
        lengths.extent[1] = out.extent[2], lengths.stride[1] = 0;
}

inline int softmax_threads(std::int64_t elements, int threads) {
    constexpr double multiply_adds_of_a_weight = 30;  // multiply-adds in the time of a weight
    return worthwhile_threads(static_cast<double>(elements) * multiply_adds_of_a_weight, threads);
}

inline std::string softmax_sizes_text(const std::array<std::int64_t, 4> &n) {
    return "b " + text(n[0]) + " h " + text(n[1]) + " q " + text(n[2]) + " k " + text(n[3]);
}

}  // namespace attune
