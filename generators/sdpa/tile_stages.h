// What is computed where products are of whole matrix tiles of bf16. The left factor of a product lies in rows along its
// reduction, the right one in pairs along it: keys and queries, then values, transposed, and weights. Scores, masks and merge
// are those of sdpa_stages.h; rounding is that of pair_stages.h. Whole and masked chunks take tiles alike, but for masked ones
// whose values may be Inf or NaN: a tile would multiply those by a weight of 0.
#pragma once
#include "generators/sdpa/pair_stages.h"

namespace attune {

struct TileStages {
    // Values are transposed in blocks of this side.
    static constexpr int value_block = 32;

    SdpaStages s;                       // RVars channel and mixed_keys count elements, not pairs
    Halide::Func key_rows, value_rows;  // (d, k, h, b) the whole of K; (k, d, c, h, b) of V, chunk by chunk
    BlockTranspose value_blocks;        // by which the latter are made
    PairStages::Pairs full, part;       // of their weights and the sums of those
    // Masked chunks of batch entries whose values may not be finite: update 2 of the Funcs that leave a chunk.
    SdpaPartials spoiled;
    PairStages pairs;  // packed_value and `part`, for those
    Halide::RVar spoiled_chunk;

    Halide::Var e{"e"};
};

// query, key and value are bf16. One instruction reduces `depth` terms: channels are filled up with zeros to a multiple of it,
// and key_block is one. chunk is a multiple of value_block.
TileStages tile_stages(const SdpaInputs &, const SdpaShape &, const Score &, const RoundPairs &round_pairs, int depth);

}  // namespace attune
