// SPDX-License-Identifier: MIT
// Block mask: for a block of queries by a block of keys, the span of keys that some query sees, and whether every query sees
// every key. One int32 a block: the runtime hands it from the kernel that makes it to the kernels that read it
// (mask_blocks_stages.h).
#pragma once
#include "Halide.h"

namespace attune {

struct BlockSpan {
    Halide::Expr begin, end;  // within the block; begin >= end: no query sees any key
    Halide::Expr whole;       // bool

    static constexpr int bits = 15;

    Halide::Expr packed() const { return begin | (end << bits) | (Halide::cast<int32_t>(whole) << (2 * bits)); }
    static BlockSpan unpacked(const Halide::Expr &word) {
        const int mask = (1 << bits) - 1;
        return {word & mask, (word >> bits) & mask, (word >> (2 * bits)) != 0};
    }
};

}  // namespace attune
