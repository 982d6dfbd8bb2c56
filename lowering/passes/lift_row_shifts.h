// SPDX-License-Identifier: MIT
// One look at the table of pages for a tile of keys.
//
// The row of a key in a pool is its position plus an entry of a table for each run of keys (placed_rows.h). Halide 21 and LLVM
// look the entry up again for every key, as neither sees that the keys of a tile lie in one run: the tile begins at a multiple
// of its size, which divides a run. The named loop is over such tiles, or over runs:
//
//     for (tile) for (k) f(a[k + shift[(4 * tile + k) / 16]])
//     ->  for (tile) { s = shift[4 * tile / 16]; for (k) f(a[k + s]) }
//
// Refused: a loop that reads no entry.
#pragma once
#include "lowering/lowered_loop.h"
#include <vector>

namespace attune {

struct LiftedShifts {
    Halide::ImageParam table;
    LoweredLoop tiles;
};

void lift_row_shifts(Halide::Pipeline, const std::vector<LiftedShifts> &);

}  // namespace attune
