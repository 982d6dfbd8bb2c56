// SPDX-License-Identifier: MIT
// What is computed: two attentions of the same queries over different keys, made one. No tile, no vector width, no target.
//
// The row of a part is weighted by its share of the sum of exponentials, exp(lse of the part - lse of both). A part of 16 bits
// is computed with in f32. Loop names: d channel, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct MergePart {
    Halide::Func out;  // (d, i, h, b)
    Halide::Func lse;  // (i, h, b)
};

// Shares may be asked for past the last row, which they then repeat: tasks have a fixed number of rows. lse comes straight from
// those of the parts, so that it may take the place of one of them once out is there.

struct MergeStages {
    Halide::Func empty_a, empty_b;  // (i, h, b) the part has seen no key: lse is -inf
    Halide::Func share_a, share_b;  // (i, h, b) what weighs the rows of the parts
    Halide::Func out;               // (d, i, h, b)
    Halide::Func lse;               // (i, h, b)

    Halide::Var d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

MergeStages merge_stages(const MergePart &a, const MergePart &b, Halide::Expr queries);

}  // namespace attune
