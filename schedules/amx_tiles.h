// SPDX-License-Identifier: MIT
// How a product of bf16 is computed by matrix instructions (AMX).
#pragma once
#include "Halide.h"

namespace attune {

// A tile of the result is 16 by 16, and an instruction adds 32 terms to it.
constexpr int amx_tile_side = 16, amx_tile_depth = 32;

struct TiledSide {
    Halide::Var var;
    int extent;  // a multiple of 16
};

// `product`, a sum over `along` whose dimensions are x (lanes) and y, is computed tile by tile for `tiles`, its wrapper, which
// is what leaves the tile registers.
void schedule_amx_tiles(Halide::Func tiles, Halide::Func product, const TiledSide &x, const TiledSide &y,
                        const Halide::RVar &along);

// The same of a sum over the terms of a step and over steps. Up to `together` tiles, two by two where they are as many, follow
// each other for join_amx_tiles(): of eight registers four hold sums then, and the others factors.
void schedule_amx_tiles(Halide::Func tiles, Halide::Func product, const TiledSide &x, const TiledSide &y,
                        const Halide::RVar &term, const Halide::RVar &step, int together = 4);

}  // namespace attune
