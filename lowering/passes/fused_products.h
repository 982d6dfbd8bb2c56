// SPDX-License-Identifier: MIT
// Multiply-adds of AArch64: a product is fused with the sum or difference that takes it, in every place.
//
// Halide 21 leaves the choice to LLVM, which makes it on AArch64 for one instruction at a time, by the latency of the code
// around (MachineCombiner). The same equation in two loops, such as those of full and of partial KV blocks, then has other
// bits, and so have two vectors of one loop. The pass calls the functions of instructions/aarch64.ll instead.
//
//     c + a*b  ->  attune_fmadd_f32(a, b, c)
//     c - a*b  ->  attune_fmsub_f32(a, b, c)
//     a*b - c  ->  attune_fnmsub_f32(a, b, c)
//
// A product that a let names is fused in each sum that takes the name, with its factors as lets. Of two products the first is
// fused: a*b + c*d is attune_fmadd_f32(a, b, c*d). Operations of strict_float() stay rounded: they are calls, not sums.
// Refused: nothing; a product that is not an operand of a sum stays as it is.
#pragma once
#include "Halide.h"

namespace attune {

void fuse_products(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
