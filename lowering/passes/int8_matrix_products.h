// SPDX-License-Identifier: MIT
// Matrix products of int8 of AArch64: sums of 2 rows by 2 columns over 8 terms by smmla.
//
// Halide 21 recognises sdot in sums over four terms, and no instruction of FEAT_I8MM: it would add two sums over four terms
// across lanes. The pass calls the function of instructions/aarch64.ll instead. Lanes are terms, columns, rows, innermost
// first.
//
//     s[ramp(0, 1, 4)] + vector_reduce_add(int32x32(widening_mul(shuffle(x, 0, 1, ... 7, 0, 1, ... 7, 8, 9, ... 15, 8, ...),
//                                                                shuffle(y, 0, 1, ... 15, 0, 1, ...))))
// ->  attune_int8_matrix(s[ramp(0, 1, 4)], x, y)
//
// Refused: nothing; a sum with other lanes stays as it is.
#pragma once
#include "Halide.h"

namespace attune {

// Whether a target has the instruction. FEAT_I8MM is part of Armv8.6-A, which is Halide 21's only name for it.
bool has_int8_matrix_products(const Halide::Target &);

void use_int8_matrix_products(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
