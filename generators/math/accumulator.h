// SPDX-License-Identifier: MIT
// Accumulator type of sums.
#pragma once
#include "Halide.h"

namespace attune {

// f32 for 16-bit types, else the type itself.
inline Halide::Type accumulator_of(Halide::Type type) { return type.bits() < 32 ? Halide::Float(32) : type; }

}  // namespace attune
