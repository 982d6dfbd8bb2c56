// SPDX-License-Identifier: MIT
// Quantised rows as numbers, one after another: rows in pages for kernels that read neither pages nor quantised rows. No tile,
// no vector width, no target.
#pragma once
#include "Halide.h"

namespace attune {

struct DequantiseRowsInputs {
    Halide::Func bytes;                              // (c, row, h) uint8: int8, or two channels of four bits
    Halide::Func scale_f32, scale_f16, minimum_f16;  // (g, row, h); of int8 g is 0
    Halide::Expr scale_is_f16;                       // of int8
    Halide::Func static_scale;                       // (d, h): of int8, in place of a scale for each row
    Halide::Expr has_static_scale;
    Halide::Func row_shift;                         // (j / keys_of_run): placed_rows.h
    Halide::Expr rows;                              // of `bytes`
    Halide::Expr channels_of_int8, groups_of_int4;  // one of them is 0
    Halide::Expr channels_of_group;                 // even
};

struct DequantiseRowsStages {
    Halide::Func out;               // (d, j, h) of the stored type
    Halide::RVar channel;           // of int8, update 0
    Halide::RVar odd, byte, group;  // of int4, update 1
    Halide::Var d{"d"}, j{"j"}, h{"h"};
};
DequantiseRowsStages dequantise_rows_stages(const DequantiseRowsInputs &, Halide::Type stored);

}  // namespace attune
