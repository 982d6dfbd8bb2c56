// SPDX-License-Identifier: MIT
#include "lowering/instructions/powers.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

PowerInstructions power_instructions(const Target &target) {
    if (!target.has_feature(Target::AVX512_Skylake)) return {};
    const auto instruction = [](const char *name, const std::vector<Expr> &operands) {
        return Call::make(Float(32), name, operands, Call::PureExtern);
    };
    return {[=](const Expr &x) { return instruction("attune_nearest", {x}); },
            [=](const Expr &factor, const Expr &n) {
                return instruction("attune_scaled", {factor, n});
            }};
}

}  // namespace attune
