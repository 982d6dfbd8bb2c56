// Matrix tiles that share their factors.
#pragma once
#include "Halide.h"

namespace attune {

// Halide 21 knows one form of a sum in a tile register: zeroed, added to, copied, one tile after the other. Once it is lowered,
// tiles that follow each other take their steps together: what two of them read is loaded once, and none waits for its own
// last product.
void join_matrix_tiles(Halide::Pipeline);

}  // namespace attune
