// SPDX-License-Identifier: MIT
#include "lowering/lowered_loop.h"

namespace attune {
using Halide::Internal::starts_with;

bool LoweredLoop::is(const std::string &name) const {
    // Halide's names: "fused." for loops that compute_with joins, one more part for each split.
    const std::string of_stage = func.name() + ".s" + std::to_string(stage) + ".";
    for (const std::string &begin : {of_stage + var, of_stage + "fused." + var})
        if (name == begin || starts_with(name, begin + ".")) return true;
    return false;
}

}  // namespace attune
