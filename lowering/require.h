// SPDX-License-Identifier: MIT
// Checks of parameters. Parameters come from users' files, so misfits are refused in users' words, not by a failed bound.
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
