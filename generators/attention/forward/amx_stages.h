// SPDX-License-Identifier: MIT
// What is computed where products are of whole AMX tiles of bf16. The left factor of a product lies in rows along its
// reduction, the right one in pairs along it: keys and queries, then values, transposed, and weights. Scores, masks and merge
// are those of blocked_stages.h; rounding is that of bf16_dot_stages.h. A tile multiplies a masked value by 0: masked KV blocks
// of values that may be Inf or NaN take those as 0, and add what rows that see them get of them. A factor of f32 or f16 is
// its parts (bf16_parts.h) and a product a sum over pairs of those, an update for each: it rounds no worse than products of
// f32. Rows are Tuples of parts; pairs are a Func for each part, because stores of Tuples are not put together, which pairs
// need.
#pragma once
#include "generators/attention/forward/bf16_dot_stages.h"

namespace attune {

struct SdpaAmxStages {
    SdpaStages s;                           // RVars channel and pv_keys count elements, not pairs
    std::vector<Halide::Func> query_pairs;  // (e, r, d, t, h, b), a Func for each part; of f32 and f16 of what s.query_t has
    // Rows of tile u along the reduction: (d, k, u, h, b), the whole of K, and (k, d, u, c, h, b) of V, one KV block after the
    // other.
    Halide::Func key_rows, value_rows;
    BlockTranspose value_blocks;  // by which the latter are made
    // The right factor of the second product.
    struct Factors {
        // Parts of p.weight, (e, r, k, c, t, h, b), of which k counts pairs, and the loops over pairs in which they are made
        // of it. p.row_sum is made in the same loops and p.weight is pure, but with dropout.
        std::vector<Halide::Func> weight_parts;
        Halide::RVar element;
        KeyLoop keys;
    } full, partial;
    // Masked KV blocks of batch entries whose values may not be finite: update 2 of the Funcs that leave a KV block. Finite
    // values, (k, d, u, c, t, h, b), and the sum of the others, (r, d, c, t, h, b).
    KvBlockStages nonfinite;
    Factors nonfinite_factors;
    Halide::Func finite_rows, sum_not_finite;
    KeyLoop not_finite_keys;
    Halide::RVar nonfinite_block;

    Halide::Var e{"e"}, u{"u"};
};

// query, key and value are bf16, which round_pairs rounds weights to, or f16 or f32, of whose parts it makes bf16. One
// instruction reduces `depth` terms: channels are filled up with zeros to a multiple of it, and kv_subblock is one. kv_block is
// a multiple of the side of value_blocks.
SdpaAmxStages sdpa_amx_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                              const RoundPairs &round_pairs, int depth);

}  // namespace attune
