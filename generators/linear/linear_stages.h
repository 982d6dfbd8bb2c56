// SPDX-License-Identifier: MIT
// Products with one matrix for all rows (a layer) or one for each entry of a batch: their inputs, and the stages that every
// form has. Each form has a struct of its own (panel_stages.h, row_stages.h, amx_stages.h). No tile, no vector width, no
// target.
//
// The depth K is cut in depth blocks (kc of Goto and van de Geijn 2008). A depth block gives partial sums, added up in the
// order of k; partials are added to the bias in depth block order. So a result depends on its row, its column and
// `depth_block`, and on no other shape, schedule or neighbour. Forms over pairs (PairSums) unroll k: the pairs of a depth block
// go in turn to independent accumulators, each summed in the order of k, and a depth block's accumulators are added one by one.
// Neighbouring pairs belong to different accumulators, so that a row may sum them side by side.
// Loop names: n column of out, m row, p panel of packed columns, k depth, u accumulator or interleaved depth block, c block of
// the depth, a interleaved depth block of accumulators, h head, b batch. Layout innermost first.
#pragma once
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

struct LinearInputs {
    Halide::Func x;  // (k, m, h, b)
    // Element (n, k), for entry (h, b).
    std::function<Halide::Expr(Halide::Expr n, Halide::Expr k, Halide::Expr h, Halide::Expr b)> weight;
    // The weight has elements for every column of the last tile, and lies as the sums read it: along n, or in bf16 in pairs
    // along k; for linear_amx_weight_stages along k, where columns and depth fill whole AMX tiles.
    bool as_it_lies = false;
    // Defined for a packed weight whose depth fills whole AMX tiles: element e of pair k, of a column of a panel. The form of
    // linear_amx_stages then multiplies the panels in place.
    std::function<Halide::Expr(Halide::Expr e, Halide::Expr column, Halide::Expr k, Halide::Expr panel)> pair_of_panel;
    bool read_once = false;             // by few rows: weights along n are not packed or widened for others
    Halide::Func bias;                  // (n); not defined: none
    Halide::Expr rows, columns, depth;  // M, N, K
    // RowStages: number of elements of each row of the weight before its first cache line, so that blocks begin where lines do.
    // It changes no result.
    Halide::Expr ahead = 0;
};

struct LinearShape {
    Halide::Type type;  // of the sums; narrower inputs are widened, out is as x
    int depth_block;    // of the depth: fixes the order of summation
    // Side of square blocks by which weights that lie along k are transposed to lie along n; 0: element by element, as suits
    // weights that lie along n already. It changes no result. Bf16DotRowStages: the number of neighbouring pairs of a column
    // that are read together, in blocks where the pairs of all accumulators stay together.
    int block;
    int accumulators = 1;  // PairSums: divides a depth block's pairs; fixes the order of summation, too
    // InterleavedRowStages (where it divides block) and Bf16DotLineStages: number of depth blocks whose independent sums are
    // interleaved. It changes no result.
    int interleaved_blocks = 1;
    int update_depth = 1;  // RankKStages: terms that an update adds to all columns; divides depth_block
};

// Stages of all forms.
struct LinearSums {
    Halide::Func partial;  // sum of a depth block: (n, m, c, h, b), or the form's own dimensions
    Halide::Func start;    // (n): the bias
    Halide::Func product;  // (n, m, h, b): bias + partials
    Halide::Func out;      // (n, m, h, b)
    Halide::RVar partial_k, product_depth_block;

    Halide::Var a{"a"}, e{"e"}, n{"n"}, m{"m"}, p{"p"}, k{"k"}, c{"c"}, t{"t"}, u{"u"}, h{"h"}, b{"b"};
};

// Sums of bf16 pairs along the depth, which must be at least 2; partial is (n, m, u, c, h, b) for accumulator u.
struct PairSums : LinearSums {
    Halide::RVar pair;                 // the element of a pair in `partial`
    Halide::RVar product_accumulator;  // of several accumulators
    Halide::RVar rest_pair;            // of several: loop of the last update of `partial`, over the last, short group of pairs
    Halide::RVar odd;                  // of the last update of product, which adds an odd depth's last product
};

}  // namespace attune
