// SPDX-License-Identifier: MIT
// Keys and values that are quantised (pool.h), as numbers: f32 products with rows of int8 or of four bits; or int8 and scales,
// for products of integers (int8_stages.h).
//
// Channels of four bits are numbered so that a vector of bytes gives two vectors of channels: in each block of 32, the 16 even
// channels, which are the low four bits, come before the 16 odd ones. Queries are given in that order, and the output has it
// (convert_rows_stages.h).
#pragma once
#include "generators/attention/forward/placed_rows.h"
#include "generators/math/dequantised.h"

namespace attune {

// int8 (d, j, h, b) with a scale (0, row, h, b) for each row, of f32 or of f16.
struct Int8Scales {
    Halide::Func f32, f16;
    Halide::Expr is_f16;
};
inline Halide::Expr scale_of_row(const Int8Scales &scales, const Halide::Expr &row, const Halide::Var &h,
                                 const Halide::Var &b) {
    return select(scales.is_f16, Halide::cast<float>(scales.f16(0, row, h, b)), scales.f32(0, row, h, b));
}
inline Halide::Func int8_rows(const std::string &name, const Halide::Func &tensor, const Int8Scales &scales,
                              const Halide::Func &shift, const Halide::Expr &rows) {
    const Halide::Var d("d"), j("j"), h("h"), b("b");
    const Halide::Expr row = placed_row(j, shift(j / keys_of_run, b), rows);
    Halide::Func numbers(name);
    numbers(d, j, h, b) = dequantised_int8(tensor(d, row, h, b), scale_of_row(scales, row, h, b));
    return numbers;
}
// The scales (j, h, b) of placed rows.
inline Halide::Func int8_scales(const std::string &name, const Int8Scales &scales, const Halide::Func &shift,
                                const Halide::Expr &rows) {
    const Halide::Var j("j"), h("h"), b("b");
    Halide::Func scale(name);
    scale(j, h, b) = scale_of_row(scales, placed_row(j, shift(j / keys_of_run, b), rows), h, b);
    return scale;
}

// Four bits (d / 2, j, h, b) with a scale and a minimum of f16 (g, row, h, b) for each group of 32 * blocks_of_group channels.
struct Int4Scales {
    Halide::Func scale, minimum;
    Halide::Expr blocks_of_group;
};
inline Halide::Func int4_rows(const std::string &name, const Halide::Func &tensor, const Int4Scales &scales,
                              const Halide::Func &shift, const Halide::Expr &rows) {
    const Halide::Var d("d"), j("j"), h("h"), b("b");
    const Halide::Expr row = placed_row(j, shift(j / keys_of_run, b), rows);
    const Halide::Expr block = d / 32, byte = block * 16 + d % 16, odd = d / 16 % 2, group = block / scales.blocks_of_group;
    Halide::Func numbers(name);
    numbers(d, j, h, b) = dequantised_int4(tensor(byte, row, h, b), odd, Halide::cast<float>(scales.minimum(group, row, h, b)),
                                           Halide::cast<float>(scales.scale(group, row, h, b)));
    return numbers;
}

}  // namespace attune
