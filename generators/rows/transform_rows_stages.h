// SPDX-License-Identifier: MIT
// Rows after their steps, rounded to their own type or quantised, and stored at places that are data. No tile, no vector width,
// no target.
//
// Row t of batch entry b goes to row i of entry p of the output, (i, p) = places(0..1, t, b), and nowhere where i is negative.
// Entry p is a page of a pool or an entry of a batch.
#pragma once
#include "generators/rows/row_stages.h"

namespace attune {

struct TransformRowsInputs {
    Halide::Func x;       // (d, t, h, b)
    Halide::Func places;  // (2, t, b)
    Halide::Expr channels, rows, heads, batch;
    // A channel after its steps as it is stored; not given: rounded to the type of x.
    std::function<Halide::Expr(const Halide::Expr &)> stored;
};
// Loops of one output over its rows; d is within a row.
struct StoreLoops {
    Halide::Func out;
    Halide::RVar d, h, t, b;
    Halide::RVar group;  // the loop outside of d where there are two in a row, else d
};

struct RowTransform {
    RowWeight weight;
    RowNorm norm;
    Halide::Func normed;  // (d, t, h, b)
    Halide::Func mixed;   // (d, s, t, h, b)
    RopeLoops rope;
    ButterflyLoops butterfly;
    RowVars vars;
};

struct TransformRowsStages : RowTransform {
    StoreLoops out;  // (d, i, h, p)
};
TransformRowsStages transform_rows_stages(const TransformRowsInputs &, const RowSteps &, Halide::Expr out_rows,
                                          Halide::Expr out_batch);

constexpr int least_group = 32;  // channels of a group of int4, where a row has more than one

// Quantisation. i8: q = round(x / scale); int4: q = round((x - minimum) / scale), two channels a byte, the even one in the low
// four bits, in groups of channels.
struct Quantisation {
    Halide::Expr channels_of_int8, groups_of_int4;  // one of them is 0
    Halide::Expr channels_of_group;                 // even
    Halide::Func static_scale;                      // (d, h) f32
    Halide::Expr has_static_scale, scale_is_f16;    // of int8
};
struct QuantiseRowsStages : RowTransform {
    Halide::Func static_scale;  // (d, h); with stand-ins an expression
    Halide::RVar static_channel;
    Halide::Func magnitudes, lowest, highest;  // (e, t, h, b), (e, g, t, h, b) twice: maxima and minima by place
    Halide::RVar magnitude_block, lowest_block, highest_block;
    std::vector<Halide::Func> halves_of_magnitudes, halves_of_lowest, halves_of_highest;
    Halide::Func low, high;                        // (g, t, h, b)
    Halide::Func scale;                            // (t, h, b)
    Halide::Func minimum, step;                    // (g, t, h, b): as stored
    StoreLoops int8, int4;                         // (d, i, h, p), (byte, i, h, p)
    StoreLoops scale_f32, scale_f16, minimum_f16;  // (g, i, h, p)
    Halide::Var g{"g"};
};
QuantiseRowsStages quantise_rows_stages(const TransformRowsInputs &, const RowSteps &, const Quantisation &,
                                        Halide::Expr out_rows, Halide::Expr out_batch);

}  // namespace attune
