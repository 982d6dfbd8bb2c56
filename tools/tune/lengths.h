// SPDX-License-Identifier: MIT
// Lengths that differ little are tuned for as one: a decoding loop of 200 steps records 200 of them, and each costs all
// processes of a decision.
#pragma once
#include "cell.h"
#include <string>
#include <vector>

namespace attune::tune {

// So many shapes of one file are tuned for as they are; of more, those are one that differ in nothing but lengths within a
// factor of two.
inline constexpr std::size_t most_single_shapes = 12;

// The groups in the order of their first shapes. For each stands its weighted median by work, with the weight of all.
std::vector<WeightedShape> group_lengths(const std::vector<WeightedShape> &);

}  // namespace attune::tune
