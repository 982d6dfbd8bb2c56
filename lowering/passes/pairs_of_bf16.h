// SPDX-License-Identifier: MIT
// bf16 dot products in the intermediate code of AArch64, as bf16_dots makes them and broadcast_lanes reads them.
#pragma once
#include "Halide.h"

namespace attune {

// The function of instructions/aarch64.ll, of a sum and two factors.
constexpr const char *bf16_dot_name = "attune_bf16_dot";

// A pair as one number of 32 bits that all lanes share: bfdot takes an element of a vector of f32 as a pair.
inline Halide::Expr broadcast_pair(const Halide::Expr &pair, int lanes) {
    return Halide::Internal::Broadcast::make(Halide::reinterpret<float>(pair), lanes);
}

}  // namespace attune
