// SPDX-License-Identifier: MIT
// Merge of two attentions of the same queries over different keys. No tile, no vector width, no target.
//
// The row of a part is weighted by its share of the sum of exponentials, exp(lse of the part - lse of both). Parts of 16 bits
// are computed in f32. Loop names: d channel, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct MergePart {
    Halide::Func out;  // (d, i, h, b)
    Halide::Func lse;  // (i, h, b)
};

// Tasks have a fixed number of rows, so shares past the last row exist and repeat the last one. lse depends on the lse of the
// parts alone, so that it may overwrite one of them after out is computed.

struct MergeStages {
    Halide::Func empty_a, empty_b;  // (i, h, b): the part has seen no key: lse is -inf
    Halide::Func share_a, share_b;  // (i, h, b): weights of the rows of the parts
    Halide::Func out;               // (d, i, h, b)
    Halide::Func lse;               // (i, h, b)

    Halide::Var d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

MergeStages merge_stages(const MergePart &a, const MergePart &b, Halide::Expr queries);

}  // namespace attune
