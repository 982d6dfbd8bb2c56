// SPDX-License-Identifier: MIT
// Dropout of weights (Srivastava et al., 2014) that grows with the distance: a weight is kept with probability reach / (reach +
// |i - j|), and divided by that probability, so that its expectation stays.
#pragma once
#include <attune/generator/attention.h>

struct DistanceDropout {
    attune::Capture reach{"reach", Halide::Float(32), 0};
    attune::Capture seed_low{"seed_low", Halide::Int(32), 0}, seed_high{"seed_high", Halide::Int(32), 0};
    Halide::Expr probability(attune::Index at) const {
        const Halide::Expr keep = reach() / (reach() + Halide::cast<float>(abs(at.i - at.j)));
        const Halide::Expr random = Halide::cast<float>(attune::random_bits(at, seed_low(), seed_high()) >> 8);
        return select(random < keep * float(1 << 24), 1 / keep, 0.0f);
    }
};
