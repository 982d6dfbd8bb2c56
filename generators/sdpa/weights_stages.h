// What is computed: the weights or the scores of an attention themselves, all of a tile's rows at a time.
#pragma once
#include "generators/sdpa/sdpa_stages.h"

namespace attune {

struct WeightsStages {
    SdpaStages s;         // up to the scores of a chunk
    Halide::Func logits;  // (r, k, c, t, h, b): of all chunks; updates: seen whole, seen in part, not seen
    Halide::RVar full_chunk, part_chunk, unseen_chunk;
    Halide::Func total_max, total_sum, share;  // (r, t, h, b): M, L, 1 / L
    Halide::Func weight;                       // (r, k, c, t, h, b)
    Halide::RVar max_key, max_chunk, sum_key, sum_chunk;
    std::vector<BlockTranspose> transposed;  // what out reads, with pair_block; else empty
    Halide::Func out;                        // (j, i, h, b)
};

// `probabilities` chooses between the softmax and the scores, which are -inf where masked.
WeightsStages weights_stages(const SdpaInputs &, const SdpaShape &, const Score &, Halide::Expr probabilities);

}  // namespace attune
