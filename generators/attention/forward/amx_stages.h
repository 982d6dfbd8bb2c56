// SPDX-License-Identifier: MIT
// Attention by AMX tiles of bf16. The left factor of a product lies in rows along its reduction, the right factor in pairs
// along it: keys and queries, then transposed values and weights. Scores, masks and merge are those of blocked_stages.h;
// rounding is that of bf16_dot_stages.h. A tile multiplies a masked value by 0, so masked KV blocks take values that may be Inf
// or NaN as 0, and add the products of those values for rows that see them. A factor of f32 or f16 is split in parts
// (bf16_parts.h) and a product is a sum over pairs of parts, an update for each: rounding is no worse than that of f32
// products. Rows are Tuples of parts; pairs are one Func per part, because Halide does not combine stores of Tuples, which
// pairs need.
#pragma once
#include "generators/attention/forward/bf16_dot_stages.h"

namespace attune {

struct SdpaAmxStages {
    SdpaStages s;                           // RVars channel and pv_keys count elements, not pairs
    std::vector<Halide::Func> query_pairs;  // (e, r, d, t, h, b), one Func per part; for f32 and f16 from s.query_t
    // Rows of tile u along the reduction: (d, k, u, h, b) for all of K, and (k, d, u, c, h, b) for V, KV block by KV block.
    Halide::Func key_rows, value_rows;
    BlockTranspose value_blocks;  // the passes that make value_rows
    // Right factor of the second product.
    struct Factors {
        // Parts of p.weight, (e, r, k, c, t, h, b), where k counts pairs, and the loops over pairs that make them. p.row_sum is
        // made in the same loops and p.weight is pure, except with dropout.
        std::vector<Halide::Func> weight_parts;
        Halide::RVar element;
        KeyLoop keys;
    } full, partial;
    // Masked KV blocks of batch entries whose values may be non-finite: update 2 of the Funcs that leave a KV block. Finite
    // values, (k, d, u, c, t, h, b), and the sum over non-finite values, (r, d, c, t, h, b).
    KvBlockStages nonfinite;
    Factors nonfinite_factors;
    Halide::Func finite_rows, sum_not_finite;
    KeyLoop not_finite_keys;
    Halide::RVar nonfinite_block;

    Halide::Var e{"e"}, u{"u"};
};

// query, key and value are bf16, to which round_pairs rounds weights, or f16 or f32, from whose parts round_pairs makes bf16.
// One instruction reduces `depth` terms: channels are padded with zeros to a multiple of depth, and kv_subblock equals depth.
// kv_block is a multiple of the side of value_blocks.
SdpaAmxStages sdpa_amx_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                              const RoundPairs &round_pairs, int depth);

}  // namespace attune
