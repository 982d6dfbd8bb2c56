// SPDX-License-Identifier: MIT
// What is computed: the weights or the scores of an attention themselves, all of a tile's rows at a time.
#pragma once
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

// A KV block gives m, its weights 2^(s - m) and their sum l, as in blocked_stages.h; when all KV blocks have, its weights are
// multiplied by its share, 2^(m - M) / L.
struct WeightsStages {
    SdpaStages s;  // of partials row_max and what it needs; of the merge total_max, block_scale and total_sum
    // Of a KV block that every row sees whole, and of another: what its pairs give, in a loop over its keys.
    struct KvBlock {
        Halide::Func made_weight;  // (r, k, c, t, h, b)
        Halide::RVar key, kv_block;
    } full, partial;
    Halide::Func weight;  // (r, j, t, h, b): updates of full KV blocks, of others, and of those that nothing sees; root: of all
    Halide::Func kv_block;  // (r, c, t, h, b): Tuple {m, l}, by the same loops as the first two updates of weight
    Halide::RVar unseen_key, unseen_block;
    Halide::Func share;                      // (r, c, t, h, b)
    std::vector<BlockTranspose> transposed;  // what out reads, with pair_block; else empty
    Halide::Func out;                        // (j, i, h, b)
};

// `probabilities` chooses between the softmax and the scores, which are -inf where masked.
WeightsStages weights_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                             Halide::Expr probabilities);

}  // namespace attune
