// SPDX-License-Identifier: MIT
// GPU schedule of products in the form of linear_simt_stages.h. No equation, no Func of its own.
#pragma once
#include "generators/linear/linear_simt_stages.h"

namespace attune {

struct LinearSimtParameters {
    int tile_rows, tile_columns, tile_depth;  // of a block (tile_depth: the stages')
    int lane_rows, lane_columns;              // of a lane, in its block's tile
};
// A block of lanes stages tiles of x and of the weight in shared memory, and each lane multiplies its rows and columns.
void schedule_linear_simt(LinearSimtStages &, Halide::Func out, const LinearSimtParameters &);

}  // namespace attune
