// SPDX-License-Identifier: MIT
// Gradient of a softmax by its scores, p (g - sum p g) for each row, from its weights p and the gradient g by the weights. A
// weight of 0 takes no part, whatever its gradient is. No tile, no vector width, no target.
//
// The sum is kept for each place in a block of keys over all blocks, then combined: a result depends on `block` and on no other
// choice of the schedule. Loop names: e place in block, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct MaskedSoftmaxBackwardInputs {
    Halide::Func weights, grad_weights;  // (j, i, h, b)
    Halide::Func lengths;                // (i, b), int32: scores beyond are constants, though they may have weights
    Halide::Expr keys;                   // extent of j
};

struct MaskedSoftmaxBackwardStages {
    Halide::Func last_product;  // (e, i, h, b): p g of the last block, padded with zeros
    Halide::Func place_sum;     // (e, i, h, b): sum of p g over the blocks
    Halide::Func row_sum;       // (i, h, b): sum of place_sum
    Halide::Func out;           // (j, i, h, b)
    Halide::RVar whole, place;
    Halide::Var e{"e"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

MaskedSoftmaxBackwardStages masked_softmax_backward_stages(const MaskedSoftmaxBackwardInputs &, int block);

}  // namespace attune
