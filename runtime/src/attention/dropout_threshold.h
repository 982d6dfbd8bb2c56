// SPDX-License-Identifier: MIT
// Threshold on the words of Philox that keep a weight, and the heads that their counters have.
#pragma once
#include "attune/dropout.h"
#include <cmath>
#include <cstdint>

namespace attune {

// Query heads that the counters of dropout have for each batch entry.
inline std::uint32_t counted_heads(const Dropout &dropout, std::int64_t query_heads) {
    return dropout.heads != 0 ? dropout.heads : static_cast<std::uint32_t>(query_heads);
}

// A weight is kept iff its 32-bit word is at least ceil(p * 2^32): 2^32, which no word reaches, where p rounds to 1.
inline std::uint64_t dropout_threshold(double probability) {
    return static_cast<std::uint64_t>(std::ceil(probability * 4294967296.0));
}

}  // namespace attune
