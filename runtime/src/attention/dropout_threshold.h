// SPDX-License-Identifier: MIT
// Threshold on the words of Philox that keep a weight.
#pragma once
#include <cmath>
#include <cstdint>

namespace attune {

// A weight is kept iff its 32-bit word is at least ceil(p * 2^32): 2^32, which no word reaches, where p rounds to 1.
inline std::uint64_t dropout_threshold(double probability) {
    return static_cast<std::uint64_t>(std::ceil(probability * 4294967296.0));
}

}  // namespace attune
