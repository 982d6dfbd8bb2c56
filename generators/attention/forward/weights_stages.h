// SPDX-License-Identifier: MIT
// The weights or the scores of an attention as its result, for all rows of a tile at a time.
#pragma once
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

// A KV block gives m, its weights 2^(s - m) and their sum l, as in blocked_stages.h; after all KV blocks, its weights are
// multiplied by its share, 2^(m - M) / L.
struct WeightsStages {
    SdpaStages s;  // partials: row_max and its inputs; merge: total_max, block_scale and total_sum
    // Results of the pairs of a KV block, full or partial, in a loop over its keys.
    struct KvBlock {
        Halide::Func made_weight;  // (r, k, c, t, h, b)
        Halide::RVar key, kv_block;
    } full, partial;
    Halide::Func weight;    // (r, j, t, h, b): updates of full, partial and unseen KV blocks; root: of all
    Halide::Func kv_block;  // (r, c, t, h, b): Tuple {m, l}, in the loops of the first two updates of weight
    Halide::RVar unseen_key, unseen_block;
    Halide::Func share;                      // (r, c, t, h, b)
    std::vector<BlockTranspose> transposed;  // inputs of out, with pair_block; else empty
    Halide::Func out;                        // (j, i, h, b)
};

// `probabilities` selects the softmax; otherwise the scores, which are -inf where masked.
WeightsStages weights_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                             Halide::Expr probabilities);

}  // namespace attune
