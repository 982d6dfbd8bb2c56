// SPDX-License-Identifier: MIT
// Numbers as sums of bf16, so that products of bf16 are as accurate as those of f32. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <utility>
#include <vector>

namespace attune {

// Number of bf16 parts. A bf16 is its own part. An f32 is the exact sum of three where no part is subnormal: its significand
// has 24 bits, a bf16's has 8. Each part is the remainder, truncated: never rounded up to Inf, all of one sign. An f16 (11
// bits) is the sum of two, neither zero unless the f16 is: the first is the next bf16 below its magnitude.
inline int bf16_parts_of(const Halide::Type &type) { return type.is_bfloat() ? 1 : type.bits() == 16 ? 2 : 3; }

// Parts of x. Inf of f32 is 1, 0 and Inf with its sign, NaN 1, 0 and NaN; of f16 the first is below 1 and the second Inf or
// NaN: sums of products with any number are as in IEEE 754. `round` turns a float that is a bf16, or NaN, into a bf16.
using RoundToBf16 = std::function<Halide::Expr(const Halide::Expr &)>;
std::vector<Halide::Expr> bf16_parts(const Halide::Expr &x, const RoundToBf16 &round);
// The first `parts` parts of an f32 that arithmetic has made; the last one is rounded.
std::vector<Halide::Expr> first_bf16_parts(const Halide::Expr &x, int parts, const RoundToBf16 &round);

// Part n of two neighbours of `type`, given as floats, as one 32-bit number, the first neighbour in its lower half.
Halide::Expr pair_of_parts(const Halide::Expr &first, const Halide::Expr &second, int n, const Halide::Type &type);
// pair_of_parts() for f32 that is finite, or NaN that arithmetic has made; part 2 is the remainder that two parts leave out.
Halide::Expr pair_of_finite_parts(const Halide::Expr &first, const Halide::Expr &second, int n);

// Pairs of parts whose products are summed. For f32: parts n and m with n + m <= 2; the products left out are 2^-24 of the
// whole at most on average, as much as rounding to f32. For two f16 factors: all pairs. For f16 and weights (two parts,
// truncated): all but the two second parts; 2^-16 is left out on average and 2^-14 at most, where rounding to f16 is up to
// 2^-11.
std::vector<std::pair<int, int>> products_of_parts(int parts);
std::vector<std::pair<int, int>> products_with_parts_of_weights(int parts);

inline Halide::Expr widened_product(const Halide::Expr &x, const Halide::Expr &y) {
    return Halide::cast<float>(x) * Halide::cast<float>(y);
}
// f += the product of two numbers, given by their parts.
void add_product(Halide::FuncRef f, const std::vector<std::pair<int, int>> &products, const std::vector<Halide::Expr> &x,
                 const std::vector<Halide::Expr> &y);

// The parts of an element: of a stage that is a Tuple of parts, or of several stages, one for each part.
std::vector<Halide::Expr> parts_at(const Halide::FuncRef &);
std::vector<Halide::Expr> parts_at(const std::vector<Halide::Func> &, const std::vector<Halide::Expr> &at);

}  // namespace attune
