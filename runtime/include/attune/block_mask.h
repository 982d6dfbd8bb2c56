// SPDX-License-Identifier: MIT
// Cache of the blocks that the mask of a user's attention leaves out, for many calls (docs/write-your-own-attention.md).
#pragma once
#include <cstdint>
#include <vector>

namespace attune {

// Blocks of (query, key) pairs that a mask leaves out, so that the mask is evaluated once and not in each call. Give the same
// object to calls of the same sizes with the same captures; clear() it when a captured buffer changes. The object must outlive
// its calls, and serves one call at a time.
class BlockMask {
public:
    void clear() { tables_.clear(); }

private:
    friend class BlockMaskTables;
    struct Table {
        std::vector<std::int64_t> key;  // sizes and captures that the blocks belong to
        std::vector<std::int32_t> blocks;
    };
    std::vector<Table> tables_;
};

}  // namespace attune
