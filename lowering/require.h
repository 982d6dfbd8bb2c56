// SPDX-License-Identifier: MIT
// Parameters come from files that users write: what does not fit a schedule is refused in their words, not by a failed bound.
#pragma once
#include "Halide.h"
#include <string>

namespace attune {

inline void require(bool condition, const std::string &what) {
    if (!condition) throw Halide::CompileError("attune: " + what + "\n");
}

inline void require_multiple(const std::string &name, int value, const std::string &of, int divisor) {
    require(divisor > 0 && value % divisor == 0,
            name + " is " + std::to_string(value) + ", must be a multiple of " + of + ", " + std::to_string(divisor));
}

}  // namespace attune
