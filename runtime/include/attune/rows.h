// SPDX-License-Identifier: MIT
// Rows of queries and keys before attention: RMS norm, rotary position embedding (RoPE), Hadamard rotation.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <cstdint>

namespace attune {

// Which channels RoPE rotates together, of its `dim` channels: (t, t + dim / 2), as Llama and GPT-NeoX do, or (2t, 2t + 1), as
// GPT-J does.
enum class RopePairs { halves, interleaved };

// Rotary position embedding (Su et al., 2021): pair t of a row at position p is turned by the angle
// p / scaling * base^(-2t / dim). Angles come from tables or from a base; neither given: no RoPE.
struct Rope {
    ConstView cos = {}, sin = {};  // f32 (positions, dim / 2), last stride 1; rope_tables() makes them
    // More than 1: the call makes tables of its own positions, dim / 2 sines and cosines each. An engine makes tables once.
    double base = 0;
    double scaling = 1;       // positions are divided by it (linear position interpolation); of base alone
    std::int64_t dim = 0;     // channels that are rotated, even; 0: all
    std::int64_t offset = 0;  // the first of them
    RopePairs pairs = RopePairs::halves;
    bool given() const { return base != 0 || cos.given() || sin.given(); }
};

// Steps in their order; each may be missing. All arithmetic is f32 (f64 for f64).
struct RowSteps {
    // RMS norm of a row (Zhang and Sennrich, 2019; "QK norm"): x / sqrt(mean(x^2) + eps) * w. Weights (D) or (H, D), of f32 or
    // the type of the rows, last stride 1.
    ConstView norm_weight = {};
    double norm_eps = 1e-6;
    Rope rope = {};
    // Normalised Walsh-Hadamard rotation in blocks of n channels, n the largest power of two that divides D, at least 8. It is
    // its own inverse. Rotating queries and keys alike leaves scores as they are, and spreads outliers before quantisation
    // (QuaRot, Ashkboos et al., 2024).
    bool hadamard = false;
};

// out = steps of each row of x, rounded once to the type of out.
//
//   x, out (T, H, D), positions (T)   or   x, out (B, H, S, D), positions (B, S)
//
// x and out are of one type, f32, f64, bf16 or f16, with any strides whose last is 1. Positions are i32, from 0, below the rows
// of the tables; needed with RoPE. out may be the very view x; otherwise they must not overlap. On a device RoPE has tables,
// and positions are not checked (docs/cuda.md).
ATTUNE_API Status transform_rows(Context &, const ConstView &x, const ConstView &positions, const View &out,
                                 const RowSteps &) noexcept;

// Gradients of transform_rows(): grad_x of x from grad_out, and grad_weight, in f32 (f64 for f64), of norm_weight where there
// is one and its gradient is wanted. Nothing of the forward is kept: x is read again. grad_x overlaps no input.
ATTUNE_API Status transform_rows_backward(Context &, const ConstView &x, const ConstView &positions, const ConstView &grad_out,
                                          const View &grad_x, const View &grad_weight, const RowSteps &) noexcept;

// Tables of cos and sin of positions 0, 1, ... for Rope: both f32 (positions, dim / 2), computed in double precision and
// rounded once. base and scaling as in Rope.
ATTUNE_API Status rope_tables(Context &, double base, double scaling, const View &cos, const View &sin) noexcept;

}  // namespace attune
