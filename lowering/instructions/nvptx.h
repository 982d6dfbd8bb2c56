// SPDX-License-Identifier: MIT
// CUDA instructions as expressions: Halide 21 takes the name of an LLVM intrinsic for an instruction.
#pragma once
#include "Halide.h"

namespace attune {

inline Halide::Expr cuda_instruction(const std::string &name, const std::vector<Halide::Expr> &args) {
    return Halide::Internal::Call::make(Halide::Float(32), name, args, Halide::Internal::Call::PureExtern);
}

// Instructions for exp2 and max: Halide's own exp is a polynomial, and its max a comparison and a selection.
inline Halide::Expr cuda_exp2(const Halide::Expr &x) { return cuda_instruction("llvm.nvvm.ex2.approx.ftz.f", {x}); }
inline Halide::Expr cuda_reciprocal(const Halide::Expr &x) { return cuda_instruction("llvm.nvvm.rcp.approx.ftz.f", {x}); }
inline Halide::Expr cuda_max(const Halide::Expr &x, const Halide::Expr &y) {
    return cuda_instruction("llvm.maxnum.f32", {x, y});
}
// x of the lane whose number in the warp differs in these bits.
inline Halide::Expr cuda_exchange(const Halide::Expr &x, int bits) {
    return cuda_instruction("llvm.nvvm.shfl.sync.bfly.f32", {-1, x, bits, 31});
}

// The integer x as an unknown value of a turn of a loop: LLVM keeps no value that depends on it beyond the loop or, with a
// turn, beyond the turn. A function of lowering/instructions/nvptx.cl.
inline Halide::Expr cuda_opaque(const Halide::Expr &x, const Halide::Expr &turn = 0) {
    return Halide::Internal::Call::make(x.type(), "attune_opaque", {x, Halide::cast<uint32_t>(turn)},
                                        Halide::Internal::Call::PureExtern);
}

// Whether the lanes of a block wait for each other here.
inline bool is_barrier(const Halide::Internal::Stmt &s) {
    const auto *op = s.defined() ? s.as<Halide::Internal::Evaluate>() : nullptr;
    const auto *call = op ? op->value.as<Halide::Internal::Call>() : nullptr;
    return call && call->is_intrinsic(Halide::Internal::Call::gpu_thread_barrier);
}

}  // namespace attune
