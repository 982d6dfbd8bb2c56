// SPDX-License-Identifier: MIT
// Products with a matrix that is one for all rows (a layer) or one for each entry of a batch: their inputs, and the stages that
// every form has. Each form has a struct of its own (panel_stages.h, row_stages.h, amx_stages.h). No tile, no vector width, no
// target.
//
// The depth K is cut in depth blocks. A depth block gives partial sums, added up in the order of k; partials are added to the
// bias in depth block order. So a result depends on its row, its column and `depth_block`, and on nothing else of shape,
// schedule or neighbours. Forms over pairs (PairSums) unroll k: pairs of a depth block are distributed in turn to independent
// accumulators, each of which adds up its own in the order of k; a depth block's are added accumulator by accumulator.
// Neighbouring pairs belong to different accumulators, so that one row may sum them side by side.
// Loop names: n column of out, m row, k depth, u accumulator or interleaved depth block, c block of the depth, a interleaved
// depth block of accumulators, h head, b batch. Layout innermost first.
#pragma once
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

struct LinearInputs {
    Halide::Func x;  // (k, m, h, b)
    // Element (n, k), for entry (h, b).
    std::function<Halide::Expr(Halide::Expr n, Halide::Expr k, Halide::Expr h, Halide::Expr b)> weight;
    // weight is there for every column of the last tile, and lies as the sums read it: along n, or in bf16 in pairs along k; of
    // linear_amx_weight_stages along k, and columns and depth fill whole AMX tiles.
    bool as_it_lies = false;
    bool read_once = false;             // by few rows: weights that lie along n are not packed or widened for others
    Halide::Func bias;                  // (n); not defined: none
    Halide::Expr rows, columns, depth;  // M, N, K
    // Of RowStages: how many elements of each row of the weight lie before its first cache line, so that blocks begin where
    // lines do. It changes no result.
    Halide::Expr ahead = 0;
};

struct LinearShape {
    Halide::Type type;  // of the sums; inputs of a narrower one are widened, out is as x
    int depth_block;    // of the depth: fixes the order of summation
    // Weights that lie along k in memory go through square blocks of this side to lie along n; 0: element by element, as
    // suits weights that lie along n already. It changes no result. Of Bf16DotRowStages: so many neighbouring pairs of a
    // column are read together, and go through blocks of which those of all accumulators stay together.
    int block;
    int accumulators = 1;  // of PairSums, a divisor of the pairs of a depth block: fixes the order of summation, too
    // Of InterleavedRowStages, a divisor of block, and of Bf16DotLineStages: the sums of so many depth blocks, which do not
    // wait for each other, are interleaved. It changes no result.
    int interleaved_blocks = 1;
    int update_depth = 1;  // of RankKStages, a divisor of depth_block: terms that an update adds to all columns
};

// What all forms have.
struct LinearSums {
    Halide::Func partial;  // sum of a depth block: (n, m, c, h, b), or the dimensions that the form says
    Halide::Func start;    // (n) the bias
    Halide::Func product;  // (n, m, h, b) bias + partials
    Halide::Func out;      // (n, m, h, b)
    Halide::RVar partial_k, product_depth_block;

    Halide::Var a{"a"}, e{"e"}, n{"n"}, m{"m"}, k{"k"}, c{"c"}, t{"t"}, u{"u"}, h{"h"}, b{"b"};
};

// Sums of bf16 pairs along the depth, which must be 2 at least; partial is (n, m, u, c, h, b) of accumulator u.
struct PairSums : LinearSums {
    Halide::RVar pair;                 // the element of a pair in `partial`
    Halide::RVar product_accumulator;  // of several
    Halide::RVar rest_pair;            // of several: the last update of `partial` has the last pairs, too few for one each
    Halide::RVar odd;                  // of the last update of product, which adds the last product of an odd depth
};

}  // namespace attune
