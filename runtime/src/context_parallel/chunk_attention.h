// SPDX-License-Identifier: MIT
// Attention of a rank's queries over one chunk of keys after the other, merged in the order of the chunks.
#pragma once
#include "context_parallel/chunk_rows.h"
#include "execution/scratch.h"
#include "user_attention/user_call.h"
#include <optional>
#include <string>
#include <vector>

namespace attune {

// Tensors and options of one rank's call; tensors of rank 4, lse of rank 3 or not given.
struct RankCall {
    const ParallelPlan &plan;
    int rank;
    ConstView query, key, value;
    SdpaOptions options;             // of all positions
    const UserCall *user = nullptr;  // of a user's attention, whose captures are those of all positions
};

// Checks of the caller's arguments, but for the output.
Status check_rank_call(const RankCall &);
// Checks the rows of the query, of the mask and of the bias, and that causal and window are the plan's.
Status check_queries(const RankCall &);
// Checks as a call of this rank's tensors, which nothing computes.
Status check_attention_of_rank(Context::State &, const RankCall &, const View &out, const SdpaOptions &);
// Refuses captures of a user's attention that are smaller than a pair of chunks of this rank's queries reads, so that no rank
// fails when others have begun. `out` has the extents of the output, and is not written.
Status check_captures_of_pairs(Context::State &, const RankCall &, const View &out);
// Checks everything about one rank's forward, and that it overlaps nothing.
Status check_rank_forward(Context::State &, const RankCall &, const View &out);

// Whether a score depends on the positions of query and key.
bool uses_positions(const RankCall &);
// Attention of queries and keys of a pair of chunks, by the library's scores or by a user's with this origin.
Status attend_pair(Context &, const UserCall *, const PairOrigin &, const ConstView &query, const ConstView &key,
                   const ConstView &value, const View &out, const SdpaOptions &);

// Options of one pair of chunks, from those of all positions. `mask` and `bias` are their rows for the queries of the pair's
// chunk, whose first position is `first`; they have rank 4, or are not given. `origin`: where the pair lies in the call of all
// positions, in which packed documents are batch entries.
struct PairOptions {
    PairOptions(const RankCall &, const ConstView &mask, const ConstView &bias, std::int64_t first, const ChunkPair &);
    SdpaOptions options;
    PairOrigin origin;

private:
    std::vector<std::int32_t> lengths_;
};
// Mask and bias as rank 4, and the rows of a chunk of them.
ConstView table_of(const ConstView &);
ConstView rows_of_table(const ConstView &, std::int64_t first, std::int64_t count);

class ChunkAttention {
public:
    ChunkAttention(Context &context, const Geometry &geometry, const RankCall &call, const View &out)
        : context_(context), geometry_(geometry), call_(call), out_(out) {}

    Status begin();
    // Adds a chunk of keys to the results of this rank's queries. Chunks come in their order.
    Status add(std::int64_t chunk_of_keys, const ConstView &key, const ConstView &value);
    Status end();

private:
    Status add(std::size_t own, std::int64_t of_keys, const ConstView &key, const ConstView &value);
    Status run_pairs(std::int64_t chunk, const std::vector<ChunkPair> &, std::int64_t of_keys, const ConstView &key,
                     const ConstView &value, const View &out, const View &lse);

    Context &context_;
    const Geometry &geometry_;
    const RankCall &call_;
    const View out_;
    bool widened_ = false;
    View lse_;   // accumulators of this rank's rows
    View sums_;  // out, or of 16-bit types f32
    View part_, part_lse_, wide_part_;
    std::optional<ScratchBlock> memory_;
    std::vector<char> begun_;  // of this rank's chunks
};

}  // namespace attune
