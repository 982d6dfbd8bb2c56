// SPDX-License-Identifier: MIT
// The type that sums are kept in.
#pragma once
#include "Halide.h"

namespace attune {

// f32 for types of 16 bits, else the type itself.
inline Halide::Type accumulator_of(Halide::Type type) { return type.bits() < 32 ? Halide::Float(32) : type; }

}  // namespace attune
