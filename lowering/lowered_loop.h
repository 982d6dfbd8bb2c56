// SPDX-License-Identifier: MIT
// Loops of a schedule in Halide's lowered code.
#pragma once
#include "Halide.h"
#include <string>

namespace attune {

// A loop of a lowered pipeline: of a stage of `func` (0: its pure definition, n: update n - 1) over `var`, or over the outer
// part of `var` where it is split.
struct LoweredLoop {
    Halide::Func func;
    int stage;
    std::string var;
    bool is(const std::string &name) const;
};

}  // namespace attune
