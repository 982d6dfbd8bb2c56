// How a product of bf16 is computed by matrix instructions (AMX).
#pragma once
#include "Halide.h"

namespace attune {

// A tile of the result is 16 by 16, and an instruction adds 32 terms to it.
constexpr int matrix_tile_side = 16, matrix_tile_depth = 32;

// `product`, a sum over `along` whose dimensions are x (lanes) and y, is computed tile by tile for `tiles`, its wrapper, which
// is what leaves the tile registers: its sizes along both are multiples of 16. Halide 21 knows one form: zeroed, added to,
// copied.
void schedule_matrix_tiles(Halide::Func tiles, Halide::Func product, const Halide::Var &x, const Halide::Var &y,
                           const Halide::RVar &along);

// The same of a sum over the terms of a step and over steps.
void schedule_matrix_tiles(Halide::Func tiles, Halide::Func product, const Halide::Var &x, const Halide::Var &y,
                           const Halide::RVar &term, const Halide::RVar &step);

}  // namespace attune
