// SPDX-License-Identifier: MIT
// Softmax of each row over its first keys. No tile, no vector width, no target.
//
// A row is cut in blocks of keys; maximum and sum are kept for each place in a block over all blocks, then combined. So a
// result depends on `block` and on no other choice of the schedule. Blocks past the length of a row are neither read nor
// computed: the weight of their keys is known, and so is their part of the sum.
// Loop names: e place in block, c block, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "generators/math/exp2.h"

namespace attune {

struct MaskedSoftmaxInputs {
    Halide::Func scores;            // (j, i, h, b)
    Halide::Func lengths;           // (i, b), int32
    Halide::Expr keys;              // extent of j
    Halide::Expr seed;              // bool: a masked score is -1e6, not -inf
    PowerInstructions powers = {};  // for the weights
};

struct MaskedSoftmaxStages {
    Halide::Func last_score;     // (e, i, h, b): s of the keys after the whole blocks, padded with -inf
    Halide::Func place_max;      // (e, i, h, b): max s over the blocks
    Halide::Func place_order;    // (e, i, h, b): place_max as an integer of the same order
    Halide::Func row_order;      // (i, h, b): max over the places
    Halide::Func row_max;        // (i, h, b): m = max s
    Halide::Func weight;         // (e, c, i, h, b): e^(s - m)
    Halide::Func place_sum;      // (e, i, h, b): sum of the weights over the blocks
    Halide::Func row_sum;        // (i, h, b): sum of place_sum
    Halide::Func masked_weight;  // (i, h, b): e^(s - m) of a masked score
    Halide::Func scale;          // (i, h, b): 1 / (row_sum + masked keys * masked weight)
    Halide::Func out;            // (j, i, h, b)
    Halide::RVar pad, rest, whole, last, all, place;

    Halide::Var e{"e"}, c{"c"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

MaskedSoftmaxStages masked_softmax_stages(const MaskedSoftmaxInputs &, int block);

}  // namespace attune
