// What is computed where products are of whole matrix tiles of bf16. The left factor of a product lies in rows along its
// reduction, the right one in pairs along it: keys and queries, then values, transposed, and weights. Scores, masks and merge
// are those of sdpa_stages.h; rounding is that of pair_stages.h. A tile multiplies a masked value by 0: masked chunks of values
// that may be Inf or NaN take those as 0, and add what rows that see them get of them.
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
    // Masked chunks of batch entries whose values may not be finite: update 2 of the Funcs that leave a chunk. Finite values,
    // (k, d, c, t, h, b), and the sum of the others, (r, d, c, t, h, b).
    SdpaPartials spoiled;
    PairStages::Pairs spoiled_pairs;
    Halide::Func finite_rows, not_finite;
    KeyLoop not_finite_keys;
    Halide::RVar spoiled_chunk;

    Halide::Var e{"e"};
};

// query, key and value are bf16. One instruction reduces `depth` terms: channels are filled up with zeros to a multiple of it,
// and key_block is one. chunk is a multiple of value_block.
TileStages tile_stages(const SdpaInputs &, const SdpaShape &, const Score &, const RoundPairs &round_pairs, int depth);

}  // namespace attune
