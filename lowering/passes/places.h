// SPDX-License-Identifier: MIT
// Places of elements in a buffer, compared.
#pragma once
#include "Halide.h"
#include <map>
#include <string>

namespace attune {

// Lets around some code: names and values.
using Lets = std::map<std::string, Halide::Expr>;

// A place in terms of no let around, with the sums and products of 32 bits that become 64 bits written as those of 64 bits.
// Halide's integers of 32 bits do not overflow, but its simplifier finds no difference of two of them behind casts.
Halide::Expr written_out(Halide::Expr place, const Lets &around);

}  // namespace attune
