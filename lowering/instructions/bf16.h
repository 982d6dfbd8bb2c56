// SPDX-License-Identifier: MIT
// bf16 instructions: targets with bf16 dot products, and rounding.
#pragma once
#include "Halide.h"
#include <functional>

namespace attune {

// Whether an AArch64 target has bfdot and bfcvtn. FEAT_BF16 is part of Armv8.6-A, which is Halide 21's only name for it.
inline bool is_aarch64_with_bf16(const Halide::Target &target) {
    return target.arch == Halide::Target::ARM && target.bits == 64 && target.has_feature(Halide::Target::ARMv86a);
}

// Whether the target has a bf16 dot product, and an instruction that rounds to bf16.
inline bool takes_pairs_of_bf16(const Halide::Target &target) {
    return target.has_feature(Halide::Target::AVX512_Zen4) || target.has_feature(Halide::Target::AVX512_SapphireRapids) ||
           is_aarch64_with_bf16(target);
}

// Whether, besides, the target does as many bf16 dot products in a cycle as f32 multiply-adds. Sapphire Rapids does half as
// many: there, widening operands is no slower than the shuffles that pairs take.
inline bool gains_by_pairs_of_bf16(const Halide::Target &target) {
    return takes_pairs_of_bf16(target) && !target.has_feature(Halide::Target::AVX512_SapphireRapids);
}

// Rounding of a float to bf16: by the target's own instruction, where it has one for a vector of pairs.
inline std::function<Halide::Expr(Halide::Expr)> rounding_to_bf16(const Halide::Target &target) {
    using namespace Halide;
    if (!takes_pairs_of_bf16(target)) return [](const Expr &x) { return cast<bfloat16_t>(x); };
    // Halide 21 emulates its own cast by integer operations on every target (halide/Halide#7219). vcvtne2ps2bf16 is the name of
    // its wrapper of that instruction for vectors of 32; the function for AArch64 is our own (aarch64.ll).
    const char *const name = is_aarch64_with_bf16(target) ? "attune_round_to_bf16" : "vcvtne2ps2bf16";
    return [=](const Expr &x) {
        return reinterpret<bfloat16_t>(Internal::Call::make(UInt(16), name, {x}, Internal::Call::PureExtern));
    };
}

}  // namespace attune
