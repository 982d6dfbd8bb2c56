// SPDX-License-Identifier: MIT
// Merge of attentions of the same queries over different keys. No tile, no vector width, no target.
//
// The row of a part is weighted by its share of the sum of exponentials, exp(lse of the part - lse of all). Parts of 16 bits
// are computed in f32. A call adds the rows of up to merged_at_once parts, in their order, to a sum of those before them; the
// shares are those among all parts. Loop names: d channel, i query, h head, b batch. Layout innermost first.
#pragma once
#include "Halide.h"
#include <array>
#include <string>

namespace attune {

constexpr int merged_at_once = 4;

struct MergeInputs {
    std::array<Halide::Func, merged_at_once> out;  // (d, i, h, b), those from `count` on without effect
    Halide::Func lse;                              // (i, h, b, part), of all parts
    Halide::Func sum_before;                       // (d, i, h, b): sum of the parts before `first`, unless that is 0
    Halide::Expr first, count, parts;              // number of the first part to add; of the parts to add; of all parts
};

// Values that a row has once, computed apart for each output, whose tasks differ. Tasks have a fixed number of rows, so shares
// past the last row exist and repeat the last one.
struct MergeShares {
    Halide::Func largest, place;  // (i, h, b): the largest lse, and its part
    Halide::Func count, last;     // (i, h, b): the number of parts with keys, whose lse is above -inf, and the last such lse
    Halide::Func sum;             // (i, h, b): sum of exp(lse - largest lse), where there are more than merged_at_once parts
    // Facts of the parts to add, (i, h, b): whether one has no key; exp(lse - largest lse); its share among all parts.
    std::array<Halide::Func, merged_at_once> empty, weight, share;

    std::array<Halide::Func *, 5> over_parts() { return {&largest, &place, &count, &last, &sum}; }
};

struct MergeStages {
    MergeShares of_out, of_sum, of_lse;
    Halide::Func out;  // (d, i, h, b): the sum in the type of the parts
    Halide::Func sum;  // (d, i, h, b): the sum, before it is rounded
    Halide::Func lse;  // (i, h, b)

    Halide::Var d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

MergeStages merge_stages(const MergeInputs &, Halide::Expr queries, Halide::Type stored);

}  // namespace attune
