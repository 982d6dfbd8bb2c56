// SPDX-License-Identifier: MIT
// Products of a block of lanes that share a tile of the result, with one matrix for all rows. The form differs from
// linear_stages.h because lanes keep their sums in registers along the whole depth: bias first, then one product after the
// other, in the order of the depth. So a result depends on its row and its column, and on no other shape, tile or neighbour.
// Loop names: n column of out, m row, k depth, h head, b batch. Layout innermost first.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

struct LinearSimtStages {
    Halide::Func x_tile;        // (m, k, h, b): x in f32, 0 beyond the depth
    Halide::Func weight_tile;   // (n, k): the weight likewise
    Halide::Func product;       // (n, m, h, b): bias + products
    Halide::Func out;           // (n, m, h, b)
    Halide::RVar tile_k, tile;  // of product: the depth within a tile, and tiles along the depth

    Halide::Var n{"n"}, m{"m"}, k{"k"}, h{"h"}, b{"b"};
};

// x, weight and bias in f32; weight is the same for all (h, b). `tile_depth` is the depth that lanes share at a time, which
// changes no result; `stored` converts a sum to the stored type.
LinearSimtStages linear_simt_stages(const LinearInputs &, int tile_depth,
                                    const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
