// SPDX-License-Identifier: MIT
// Chunks of a parallel plan: who holds them, and which pairs of chunks have a query that sees a key.
#pragma once
#include "attune/context_parallel.h"
#include <algorithm>
#include <vector>

namespace attune {

// Queries and keys of one call: positions [query, query + queries) and [key, key + keys), of one document where there are some.
struct ChunkPair {
    std::int64_t query, queries, key, keys;
};

// Keys that a query at position p may see: [p - left, p + right]; -1: no bound.
struct PositionBand {
    std::int64_t left = -1, right = -1;
};
PositionBand position_band(Causal, Window);

class Geometry {
public:
    // The plan must have passed check_plan().
    explicit Geometry(const ParallelPlan &);

    std::int64_t chunks() const { return static_cast<std::int64_t>(owner_.size()); }
    int owner(std::int64_t chunk) const { return owner_[static_cast<std::size_t>(chunk)]; }
    // First row of a chunk in the tensors of its owner.
    std::int64_t row(std::int64_t chunk) const { return row_[static_cast<std::size_t>(chunk)]; }
    const ParallelPlan &plan() const { return plan_; }
    std::int64_t begin(std::int64_t chunk) const { return chunk * plan_.chunk; }
    std::int64_t count(std::int64_t chunk) const { return std::min(plan_.chunk, plan_.positions - begin(chunk)); }
    // Chunks that a rank holds, in their order.
    const std::vector<std::int64_t> &chunks_of(int rank) const { return chunks_of_[static_cast<std::size_t>(rank)]; }

    // The calls of a chunk of queries and a chunk of keys; none where no query sees a key.
    std::vector<ChunkPair> pairs(std::int64_t of_queries, std::int64_t of_keys) const;
    bool sees(std::int64_t of_queries, std::int64_t of_keys) const;
    // Whether a rank needs a chunk: it holds queries that see the chunk's keys, or keys that the chunk's queries see.
    bool needs(int rank, std::int64_t chunk, bool of_keys) const;
    // Ranks but the owner that need a chunk, in the order of the ring behind the owner.
    std::vector<int> needed_by(std::int64_t chunk, bool of_keys) const;

private:
    template<typename F> void each_document(std::int64_t of_queries, std::int64_t of_keys, const F &) const;

    const ParallelPlan &plan_;
    PositionBand band_;
    std::vector<int> owner_;
    std::vector<std::int64_t> row_;
    std::vector<std::vector<std::int64_t>> chunks_of_;
};

// Bytes of the rows of one tensor in a message: tensors of a message begin at multiples of 64 bytes.
inline std::size_t message_bytes(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t width, DType type) {
    const std::int64_t bytes = batch * heads * rows * width * size_of(type);
    return static_cast<std::size_t>((bytes + 63) / 64 * 64);
}

// Slots of messages that a rank of a circulation holds: one that it computes with, one that comes, and one or two that go.
constexpr std::size_t slots_of(int ranks) { return ranks > 2 ? 4 : 3; }

// Checks a plan that a caller may have made.
Status check_plan(const ParallelPlan &);

}  // namespace attune
