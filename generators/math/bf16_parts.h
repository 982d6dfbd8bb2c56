// Numbers as sums of bf16, so that products of bf16 are as accurate as those of f32. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <utility>
#include <vector>

namespace attune {

// A bf16 is itself. An f32 is the sum of three, exactly, where no part is subnormal: its significand has 24 bits, that of a
// bf16 has 8. Each part is what is left, cut off: never rounded up to Inf, and all of one sign.
inline int bf16_parts_of(const Halide::Type &type) { return type.is_bfloat() ? 1 : 3; }

// Inf is 1, 0 and Inf with its sign, NaN 1, 0 and NaN: products_of_parts() of it with any number are what IEEE 754 has.
// `round` turns a float that is a bf16, or NaN, into one.
using RoundToBf16 = std::function<Halide::Expr(const Halide::Expr &)>;
std::vector<Halide::Expr> bf16_parts(const Halide::Expr &x, const RoundToBf16 &round);

// Part n of two neighbours as one number of 32 bits, the first in its lower half. never_infinite: they are finite, or NaN that
// arithmetic has made.
Halide::Expr pair_of_parts(const Halide::Expr &first, const Halide::Expr &second, int n, bool never_infinite = false);

// Which parts of two factors are multiplied: the first of all to the third of each. What is left out is 2^-24 of the product at
// most on average, as much as rounding it to f32 is.
std::vector<std::pair<int, int>> products_of_parts(int parts);

// The parts that a stage has as a Tuple, or several have.
std::vector<Halide::Expr> parts_at(const Halide::FuncRef &);
std::vector<Halide::Expr> parts_at(const std::vector<Halide::Func> &, const std::vector<Halide::Expr> &at);

}  // namespace attune
