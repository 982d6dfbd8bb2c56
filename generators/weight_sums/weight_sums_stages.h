// SPDX-License-Identifier: MIT
// Sums of attention weights by key, over queries and over the query heads of a group. No tile, no vector width, no target.
//
// A key's weights are added to the sum before them one by one, query by query and for each query head by head. So a sum does
// not depend on how many queries a call has weights of: queries in chunks give the bits of all queries at once.
// Loop names: j key, i query, g query head of a group, h group (a query head, or the query heads of a key head). Layout
// innermost first.
#pragma once
#include "Halide.h"

namespace attune {

struct WeightSumsInputs {
    Halide::Func x;                     // (j, i, g, h)
    Halide::Func before;                // (j, h), sums over earlier queries; may be the memory of the result
    Halide::Expr keys, queries, group;  // extents of j, i, g
};

struct WeightSumsStages {
    Halide::Func sum;  // (j, h)
    Halide::RVar head, query;
    Halide::Func out;  // (j, h)
    Halide::Var j{"j"}, h{"h"};
};

WeightSumsStages weight_sums_stages(const WeightSumsInputs &);

}  // namespace attune
