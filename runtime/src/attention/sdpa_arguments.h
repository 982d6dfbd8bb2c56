// SPDX-License-Identifier: MIT
// Arguments of the kernels of attention that are not views of the caller's, forward and backward.
#pragma once
#include "attention/sdpa_call.h"

namespace attune {

// The extremes of lengths over the queries of a tile, as the kernels want them: (B, tiles). Storage of bytes_of_bounds().
struct LengthBounds {
    ConstView shortest, longest;
};
LengthBounds bound_lengths(const ConstView &lens, const SdpaProblem &, std::int64_t tile, std::int32_t *storage);
std::int64_t bytes_of_bounds(const SdpaProblem &);

// A table over pairs as kernels read it, dense along the keys: one that has a single element for all keys is written out
// to `copy`, bytes_of_expansion(), 0 where it needs none. Dimensions that broadcast stay single.
ConstView dense_along_keys(const ConstView &, std::int64_t keys, char *copy);
std::int64_t bytes_of_expansion(const ConstView &, std::int64_t keys);

}  // namespace attune
