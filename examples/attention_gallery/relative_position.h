// SPDX-License-Identifier: MIT
// T5's relative position (Raffel et al., 2020): a learned bias for each of 32 buckets of distances, half of the buckets for
// keys ahead of the query. Eight distances have a bucket each; further buckets begin at 8 * 2^(n/2).
#pragma once
#include <attune/generator/attention.h>

struct RelativePosition {
    attune::Capture table{"table", 2};  // (32, Hq)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        const Halide::Expr ahead = at.j - at.position, distance = abs(ahead);
        Halide::Expr bucket = min(Halide::cast<int>(distance), 8);
        for (const int from : {12, 16, 23, 32, 46, 64, 91}) bucket += select(distance < from, 0, 1);
        return x + table(select(ahead > 0, bucket + 16, bucket), at.h);
    }
};
