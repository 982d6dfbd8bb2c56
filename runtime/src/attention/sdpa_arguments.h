// SPDX-License-Identifier: MIT
// Arguments of attention kernels, forward and backward, that are not the caller's views.
#pragma once
#include "attention/sdpa_call.h"

namespace attune {

// Least and greatest length over the queries of a tile, as the kernels read them: (B, tiles). Storage of bytes_of_bounds().
struct LengthBounds {
    ConstView shortest, longest;
};
LengthBounds bound_lengths(const ConstView &lens, const SdpaProblem &, std::int64_t tile, std::int32_t *storage);
std::int64_t bytes_of_bounds(const SdpaProblem &);

// A table over (query, key) pairs as kernels read it, dense along the keys: a table with a single element for all keys is
// written out to `copy`, bytes_of_expansion(), which is 0 where none is needed. Dimensions that broadcast keep extent 1.
ConstView dense_along_keys(const ConstView &, std::int64_t keys, char *copy);
std::int64_t bytes_of_expansion(const ConstView &, std::int64_t keys);

}  // namespace attune
