// SPDX-License-Identifier: MIT
// The column of lengths of a file of shapes.
#include "dispatch/shape_record.h"
#include <algorithm>
#include <vector>

namespace attune {
std::vector<std::int64_t> entry_lengths(const ConstView &lengths, bool &exact) {
    std::vector<std::int64_t> all;
    const std::int64_t queries = lengths.stride[1] == 0 ? 1 : lengths.extent[1];
    for (std::int64_t b = 0; b < lengths.extent[0]; b++) {
        std::int64_t sum = 0;
        const auto *entry = static_cast<const std::int32_t *>(lengths.data) + b * lengths.stride[0];
        for (std::int64_t i = 0; i < queries; i++) {
            sum += entry[i * lengths.stride[1]];
            exact = exact && entry[i * lengths.stride[1]] == entry[0];
        }
        all.push_back((sum + queries - 1) / queries);
    }
    return all;
}

std::string column_of(const std::vector<std::int64_t> &lengths, std::int64_t keys) {
    if (std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t n) { return n == keys; })) return {};
    std::string text;
    for (const std::int64_t n : lengths) text += (text.empty() ? "" : "_") + std::to_string(n);
    return text;
}

std::string lengths_column(const ConstView &lengths, std::int64_t keys, bool &exact) {
    return column_of(entry_lengths(lengths, exact), keys);
}

}  // namespace attune
