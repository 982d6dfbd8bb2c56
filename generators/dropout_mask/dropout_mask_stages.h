// SPDX-License-Identifier: MIT
// Dropout mask: the weights that dropout keeps (runtime/include/attune/dropout.h). No tile, no vector width, no target. Loop
// names: f four keys, word key among the four, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct DropoutMaskInputs {
    // uint32: counters of the first query, key and head, and the heads that a batch entry counts
    Halide::Expr seed_low, seed_high, offset, first_query, first_key, first_head, heads;
    Halide::Expr threshold;  // uint32: a random word below it drops its weight
};

struct DropoutMaskStages {
    Halide::Func kept;  // (word, f, i, h, b) uint8
    Halide::Func out;   // (j, i, h, b) uint8

    Halide::Var word{"word"}, f{"f"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

DropoutMaskStages dropout_mask_stages(const DropoutMaskInputs &);

}  // namespace attune
