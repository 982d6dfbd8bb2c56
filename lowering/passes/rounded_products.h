// SPDX-License-Identifier: MIT
// Products of strict_float() on CUDA: each is rounded before it is added.
//
// Halide 21 lets LLVM fuse every product with the sum that takes it when it makes PTX, those of strict_float() too, and ptxas
// fuses what has no rounding of its own. The pass names the rounding: "mul.rn" is never fused (PTX ISA, "add").
//
//     strict_mul(a, b)  ->  llvm.nvvm.mul.rn.f(a, b)
//
// The results are then those of CPUs, bit by bit. Refused: a kernel without such a product.
#pragma once
#include "Halide.h"

namespace attune {

void round_products(Halide::Pipeline);

}  // namespace attune
