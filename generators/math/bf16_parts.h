// SPDX-License-Identifier: MIT
// Numbers as sums of bf16, so that products of bf16 are as accurate as those of f32. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <utility>
#include <vector>

namespace attune {

// A bf16 is itself. An f32 is the sum of three, exactly, where no part is subnormal: its significand has 24 bits, that of a
// bf16 has 8. Each part is what is left, cut off: never rounded up to Inf, and all of one sign. An f16, of 11 bits, is the sum
// of two, neither of them zero unless it is: the first is the next bf16 below its magnitude.
inline int bf16_parts_of(const Halide::Type &type) { return type.is_bfloat() ? 1 : type.bits() == 16 ? 2 : 3; }

// Inf of f32 is 1, 0 and Inf with its sign, NaN 1, 0 and NaN, and of f16 the first is below 1 and the second Inf or NaN: sums
// of products of it with any number are what IEEE 754 has. `round` turns a float that is a bf16, or NaN, into one.
using RoundToBf16 = std::function<Halide::Expr(const Halide::Expr &)>;
std::vector<Halide::Expr> bf16_parts(const Halide::Expr &x, const RoundToBf16 &round);
// Of an f32 that arithmetic has made, the first `parts` of them, the last of which is rounded.
std::vector<Halide::Expr> first_bf16_parts(const Halide::Expr &x, int parts, const RoundToBf16 &round);

// Part n of two neighbours of `type`, given as floats, as one number of 32 bits, the first in its lower half.
Halide::Expr pair_of_parts(const Halide::Expr &first, const Halide::Expr &second, int n, const Halide::Type &type);
// The same of f32 that is finite, or NaN that arithmetic has made; part 2 is what a sum of fewer parts leaves out.
Halide::Expr pair_of_finite_parts(const Halide::Expr &first, const Halide::Expr &second, int n);

// Which parts of two factors are multiplied: of f32 the first of all to the third of each. What is left out is 2^-24 of the
// product at most on average, as much as rounding it to f32 is. Of two factors of f16 all are multiplied; of f16 and of
// weights, which are cut off after two parts, all but the second parts: 2^-16 of the product is left out on average and 2^-14
// at most, where rounding to f16 is up to 2^-11.
std::vector<std::pair<int, int>> products_of_parts(int parts);
std::vector<std::pair<int, int>> products_with_parts_of_weights(int parts);

inline Halide::Expr widened_product(const Halide::Expr &x, const Halide::Expr &y) {
    return Halide::cast<float>(x) * Halide::cast<float>(y);
}
// f += the product of two numbers, given by their parts.
void add_product(Halide::FuncRef f, const std::vector<std::pair<int, int>> &products, const std::vector<Halide::Expr> &x,
                 const std::vector<Halide::Expr> &y);

// The parts that a stage has as a Tuple, or several have.
std::vector<Halide::Expr> parts_at(const Halide::FuncRef &);
std::vector<Halide::Expr> parts_at(const std::vector<Halide::Func> &, const std::vector<Halide::Expr> &at);

}  // namespace attune
