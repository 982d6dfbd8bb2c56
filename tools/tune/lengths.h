// SPDX-License-Identifier: MIT
// Grouping of similar lengths, which are tuned for as one: a decoding loop of 200 steps records 200 lengths, and each costs all
// processes of a decision.
#pragma once
#include "cell.h"
#include <string>
#include <vector>

namespace attune::tune {

// Most shapes of one file that are tuned for singly; beyond, shapes that differ only in lengths within a factor of two are one.
inline constexpr std::size_t most_single_shapes = 12;

// The groups, in the order of their first shapes. Each is its weighted median by work, with the weight of the whole group.
std::vector<WeightedShape> group_lengths(const std::vector<WeightedShape> &);

}  // namespace attune::tune
