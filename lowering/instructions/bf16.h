// SPDX-License-Identifier: MIT
// bf16 by instructions: which targets have dot products of pairs, and rounding.
#pragma once
#include "Halide.h"
#include <functional>

namespace attune {

// Has a dot product of pairs of bf16, and an instruction that rounds to them.
inline bool takes_pairs_of_bf16(const Halide::Target &target) {
    return target.has_feature(Halide::Target::AVX512_Zen4) || target.has_feature(Halide::Target::AVX512_SapphireRapids);
}

// And does as many of those in a cycle as multiply-adds of f32. Sapphire Rapids does half as many: there, widening what is read
// is no slower than the shuffles that pairs take.
inline bool gains_by_pairs_of_bf16(const Halide::Target &target) {
    return takes_pairs_of_bf16(target) && !target.has_feature(Halide::Target::AVX512_SapphireRapids);
}

// Rounds a float to bf16: the target's own instruction, where it has one for a vector of pairs.
inline std::function<Halide::Expr(Halide::Expr)> rounding_to_bf16(const Halide::Target &target) {
    using namespace Halide;
    // Halide 21 emulates its own cast by integer operations on every x86 target (halide/Halide#7219), but its AVX-512 runtime
    // module holds this wrapper of vcvtne2ps2bf16 for vectors of 32, found by name.
    if (takes_pairs_of_bf16(target))
        return [](const Expr &x) {
            return reinterpret<bfloat16_t>(Internal::Call::make(UInt(16), "vcvtne2ps2bf16", {x}, Internal::Call::PureExtern));
        };
    return [](const Expr &x) { return cast<bfloat16_t>(x); };
}

}  // namespace attune
