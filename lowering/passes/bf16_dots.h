// SPDX-License-Identifier: MIT
// bf16 dot products of AArch64: sums of two neighbouring products by bfdot.
//
// Halide 21 recognises vdpbf16ps of AVX-512 in a sum over pairs, and no instruction of FEAT_BF16: it would widen the factors
// and add across lanes. The pass calls the function of instructions/aarch64.ll instead. A pair that all lanes share is read as
// one number of 32 bits, so that broadcast_lanes finds it and bfdot takes it by element.
//
//     s[ramp(0, 1, 4)] + vector_reduce_add(float32x8(q[ramp(k*8, 1, 8)])*shuffle(float32x2(x[ramp(k*2, 1, 2)]), 0, 1, 0, ...))
// ->  attune_bf16_dot(s[ramp(0, 1, 4)], q[ramp(k*8, 1, 8)], x4(reinterpret<float>(x[ramp(k*2, 1, 2)])))
//
// bfdot rounds the sum of a pair and the whole sum to odd, and takes subnormal numbers as zero, where multiply-adds round to
// nearest (docs/numerics.md). Refused: nothing; a sum that becomes a scalar stays as it is.
#pragma once
#include "Halide.h"

namespace attune {

void use_bf16_dots(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
