// SPDX-License-Identifier: MIT
// Dropout mask: the weights that dropout keeps (runtime/include/attune/dropout.h). No tile, no vector width, no target. Loop
// names: f four keys, word key among the four, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct DropoutMaskInputs {
    Halide::Expr seed_low, seed_high, offset;  // uint32
    Halide::Expr threshold;                    // uint32: a random word below it drops its weight
    Halide::Expr heads;                        // extent of h
};

struct DropoutMaskStages {
    Halide::Func kept;  // (word, f, i, h, b) uint8
    Halide::Func out;   // (j, i, h, b) uint8

    Halide::Var word{"word"}, f{"f"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

DropoutMaskStages dropout_mask_stages(const DropoutMaskInputs &);

}  // namespace attune
