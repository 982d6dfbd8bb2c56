// SPDX-License-Identifier: MIT
// Mean of weights or scores over heads. No tile, no vector width, no target.
//
// Heads are added in order, in f32 for 16-bit elements, and the sum is divided once and rounded once: a factor 1 / H rounded to
// 16 bits would be off by up to half a percent.
// Loop names: j key, h head, i query, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct HeadMeanInputs {
    Halide::Func x;            // (j, h, i, b)
    Halide::Expr keys, heads;  // extents of j, h
};

struct HeadMeanStages {
    Halide::Func sum;  // (j, i, b) in the accumulator's type
    Halide::RVar head;
    Halide::Func out;  // (j, i, b)
    Halide::Var j{"j"}, i{"i"}, b{"b"};
};

HeadMeanStages head_mean_stages(const HeadMeanInputs &, Halide::Type stored);

}  // namespace attune
