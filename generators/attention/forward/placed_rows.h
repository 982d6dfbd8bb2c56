// SPDX-License-Identifier: MIT
// Places of the rows of keys and values: dense, or in pages of a pool (PagedAttention, Kwon et al. 2023).
#pragma once
#include "Halide.h"
#include <string>

namespace attune {

// Keys of a run, whose rows follow each other wherever a cache is cut: pages are multiples of a run.
constexpr int keys_of_run = 16;

// The row of key j of a memory of `rows`. All shifts of a dense tensor are 0; a shift of a page is its first row less the
// position of its first key. A sum and no table of rows, so that the address of the next key remains that of the last
// one plus a stride.
inline Halide::Expr placed_row(const Halide::Expr &j, const Halide::Expr &shift, const Halide::Expr &rows) {
    return Halide::unsafe_promise_clamped(j + shift, 0, rows - 1);
}

// Tensor (d, j, h, b) whose row of key j is row j + shift(j / keys_of_run, b) of the given one.
inline Halide::Func placed_rows(const std::string &name, const Halide::Func &tensor, const Halide::Func &shift,
                                const Halide::Expr &rows) {
    const Halide::Var d("d"), j("j"), h("h"), b("b");
    Halide::Func placed(name);
    placed(d, j, h, b) = tensor(d, placed_row(j, shift(j / keys_of_run, b), rows), h, b);
    return placed;
}

}  // namespace attune
