// SPDX-License-Identifier: MIT
// The blocks that the mask of a user's attention leaves out, kept from call to call (docs/write-your-own-attention.md).
#pragma once
#include <cstdint>
#include <vector>

namespace attune {

// Which blocks of pairs a mask leaves out, so that the mask is asked once and not in each call. Give the same object to calls
// of the same sizes with the same captures; clear() it when a captured buffer changes. It must outlive its calls, one at a
// time.
class BlockMask {
public:
    void clear() { tables_.clear(); }

private:
    friend class BlockMaskTables;
    struct Table {
        std::vector<std::int64_t> key;  // what it was made for
        std::vector<std::int32_t> blocks;
    };
    std::vector<Table> tables_;
};

}  // namespace attune
