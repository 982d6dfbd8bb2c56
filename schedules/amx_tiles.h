// SPDX-License-Identifier: MIT
// Products of bf16 by AMX tiles.
#pragma once
#include "Halide.h"

namespace attune {

// A tile of the result is 16 by 16, and an instruction adds 32 terms to each element.
constexpr int amx_tile_side = 16, amx_tile_depth = 32;

struct TiledSide {
    Halide::Var var;
    int extent;  // a multiple of 16
};

// Computes `product`, a sum over `along` with dimensions x (lanes) and y, tile by tile for its wrapper `tiles`, which is the
// copy out of the tile registers.
void schedule_amx_tiles(Halide::Func tiles, Halide::Func product, const TiledSide &x, const TiledSide &y,
                        const Halide::RVar &along);

// For a sum over the terms of a step and over steps. Up to `together` tiles, two by two if there are as many, are adjacent for
// join_amx_tiles(): four of the eight registers then hold sums, and the others factors.
void schedule_amx_tiles(Halide::Func tiles, Halide::Func product, const TiledSide &x, const TiledSide &y,
                        const Halide::RVar &term, const Halide::RVar &step, int together = 4);

}  // namespace attune
