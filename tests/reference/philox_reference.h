// SPDX-License-Identifier: MIT
// Reference of dropout: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011),
// and the weights that it keeps.
#pragma once
#include "attune/dropout.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace attune_test {

inline std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; round++) {
        const std::uint64_t first = std::uint64_t(0xD2511F53u) * c[0], second = std::uint64_t(0xCD9E8D57u) * c[2];
        c = {std::uint32_t(second >> 32) ^ c[1] ^ key[0], std::uint32_t(second),  //
             std::uint32_t(first >> 32) ^ c[3] ^ key[1], std::uint32_t(first)};
        key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
    }
    return c;
}

// Whether the weight (b, h, i, j) of `heads` query heads is kept.
inline bool kept_by_dropout(const attune::Dropout &dropout, std::int64_t heads, std::int64_t b, std::int64_t h, std::int64_t i,
                            std::int64_t j) {
    if (dropout.probability >= 1) return false;
    const std::uint32_t counted = dropout.heads ? dropout.heads : std::uint32_t(heads);
    i += dropout.first_query, j += dropout.first_key;
    const std::uint32_t head = std::uint32_t(b) * counted + std::uint32_t(h) + dropout.first_head;
    const auto words = philox4x32_10({std::uint32_t(j / 4), std::uint32_t(i), head, dropout.offset},
                                     {std::uint32_t(dropout.seed), std::uint32_t(dropout.seed >> 32)});
    return double(words[std::size_t(j % 4)]) >= std::ceil(dropout.probability * 4294967296.0);
}

// The same where the rows are packed documents, document n those from documents[n] to documents[n + 1]: each is a batch entry,
// and counts from its own begin. The query and the key are of one document; no documents: rows of a batch entry.
inline bool kept_by_dropout(const attune::Dropout &dropout, std::int64_t heads, const std::vector<std::int32_t> &documents,
                            std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    if (documents.empty()) return kept_by_dropout(dropout, heads, b, h, i, j);
    const auto of = std::upper_bound(documents.begin(), documents.end(), i) - 1;
    return kept_by_dropout(dropout, heads, of - documents.begin(), h, i - *of, j - *of);
}

}  // namespace attune_test
