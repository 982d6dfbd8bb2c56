// SPDX-License-Identifier: MIT
// Sums over the lanes of a vector.
#pragma once
#include "Halide.h"
#include <algorithm>
#include <string>

namespace attune {

// Sum by halves: the update of f, a sum over `lane` of `width` numbers, adds halves until one lane is left, in vectors of at
// most `lanes`. Code generation would add the lanes of a vector one after another.
inline void sum_by_halves(Halide::Func f, Halide::RVar lane, int width, int lanes, const Halide::LoopLevel &at) {
    for (width /= 2; width > 1; width /= 2) {
        Halide::Var half_lane("lane" + std::to_string(width));
        Halide::RVar half("half"), rest("rest" + std::to_string(width));
        Halide::Func half_sum = f.update().split(lane, half, rest, width).rfactor(rest, half_lane);
        const int vector = std::min(width, lanes);
        half_sum.compute_at(at).store_in(Halide::MemoryType::Stack).vectorize(half_lane, vector);
        half_sum.update().reorder(half_lane, half).vectorize(half_lane, vector).unroll(half);
        lane = rest;
    }
    f.update().unroll(lane);
}

}  // namespace attune
