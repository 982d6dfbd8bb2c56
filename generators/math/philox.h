// Counter-based random numbers, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"
#include <array>

namespace attune {

// The four words of Philox4x32-10 (Salmon et al., 2011) for a counter and a key; all UInt(32).
std::array<Halide::Expr, 4> philox4x32_10(const std::array<Halide::Expr, 4> &counter, const std::array<Halide::Expr, 2> &key);

}  // namespace attune
