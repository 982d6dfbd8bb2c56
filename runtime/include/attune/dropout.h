// SPDX-License-Identifier: MIT
// Dropout of attention weights: whether a weight is kept depends on (seed, b, h, i, j) alone.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <cstdint>

namespace attune {

// Dropout with probability p: each weight after the softmax is kept with probability 1 - p and multiplied by 1 / (1 - p), or
// becomes 0. p = 0 is no dropout, p = 1 gives zeros. A weight that becomes 0 still multiplies its value, so a NaN or infinite
// value gives NaN there too; only with p = 1 it has no effect. Weight (b, h, i, j) of Hq query heads is kept iff word j mod 4
// of Philox4x32-10 (Salmon et al., 2011), key (seed's low 32 bits, its high 32 bits), counter (j div 4, i, b * Hq + h, offset),
// is at least ceil(p * 2^32).
struct Dropout {
    double probability = 0;  // p, from 0 to 1
    std::uint64_t seed = 0;
    std::uint32_t offset = 0;  // selects another mask of the same seed, such as the number of the layer or step
    // Counters of a part of a larger call, modulo 2^32: weight (b, h, i, j) of this call has the counter of weight
    // (b, first_head + h, first_query + i, first_key + j) of a call with `heads` query heads. So chunks of queries, keys, heads
    // or batch entries (first_head = b heads + h) drop the weights that one call drops. heads 0: Hq of this call, else at least
    // Hq. In packed batches each sequence begins at first_query and first_key.
    std::uint32_t first_query = 0, first_key = 0, first_head = 0, heads = 0;
};

// The dropout mask: mask(b, h, i, j) is true where the weight is kept.
//
//   mask (B, Hq, Sq, Sk), or (B, Sq, Sk) for one head; bool, any strides that do not overlap
ATTUNE_API Status dropout_mask(Context &, const Dropout &, const View &mask) noexcept;

}  // namespace attune
