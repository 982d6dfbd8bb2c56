// SPDX-License-Identifier: MIT
// Keys count for less the further they are from the query, at a rate that each head learns; none is ahead of it.
#pragma once
#include <attune/generator/attention.h>

struct Recency {
    attune::Capture rate{"rate", 1};  // (Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        return x - exp(rate(at.h)) * log(1 + abs(Halide::cast(x.type(), at.position - at.j)));
    }
    Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
};
