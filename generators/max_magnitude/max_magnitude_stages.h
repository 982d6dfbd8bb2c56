// SPDX-License-Identifier: MIT
// Largest magnitude of each batch entry, infinite if there is a NaN. No tile, no vector width, no target. Loop names: d
// channel, e place in a block of channels, s row, h head, b batch, t tile of rows, counted through all heads and batch entries.
// Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct MaxMagnitudeInputs {
    Halide::Func x;                      // (d, s, h, b) f32
    Halide::Expr channels, rows, heads;  // extents of d, s, h
};

// Magnitudes are compared as the bits of |x|, as integers, which have the order of the numbers, with NaN last.
struct MaxMagnitudeStages {
    Halide::Func tile_max;   // (e, t): over the rows of a tile and their blocks
    Halide::Func place_max;  // (e, t): a copy of tile_max, all in one Func
    Halide::Func batch_max;  // (b)
    Halide::Func out;        // (b) f32
    Halide::RVar block, row, place;

    Halide::Var e{"e"}, t{"t"}, b{"b"};
};

MaxMagnitudeStages max_magnitude_stages(const MaxMagnitudeInputs &, int block, int rows_per_tile);

}  // namespace attune
