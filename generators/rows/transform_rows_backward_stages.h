// SPDX-License-Identifier: MIT
// Gradients of the steps on rows. Nothing of the forward is kept: the norm is computed again. No tile, no vector width, no
// target.
#pragma once
#include "generators/rows/row_stages.h"

namespace attune {

// The gradient of rows before RoPE and the Hadamard rotation, whose inverses are the rotation by -angle and itself.
struct RowGradient {
    Halide::Func mixed;  // (d, s, t, h, b)
    ButterflyLoops butterfly;
    Halide::Func turned;  // (d, t, h, b)
    RopeLoops rope;
    RowNorm norm;
};

struct TransformRowsBackwardInputs {
    Halide::Func x, grad_out;  // (d, t, h, b)
    Halide::Expr channels, rows, heads, batch;
    Halide::Expr heads_of_weight;  // heads that share a weight: 1 or all
};
struct TransformRowsBackwardStages {
    static constexpr int tile = 64;  // rows whose gradients of the weight are added first
    RowWeight weight;
    RowGradient of_x, of_weight;  // the same, for the two gradients
    RowSum dot;                   // of the weighted gradient and x
    Halide::Func grad_x;          // (d, t, h, b)
    Halide::Func tile_sum;        // (d, tile, h, b)
    Halide::RVar row;             // of a tile
    Halide::Func grad_weight;     // (d, h)
    Halide::RVar all_tiles, all_heads, all_batches;
    RowVars vars;
    Halide::Var n{"n"};  // tile
};
TransformRowsBackwardStages transform_rows_backward_stages(const TransformRowsBackwardInputs &, const RowSteps &);

}  // namespace attune
