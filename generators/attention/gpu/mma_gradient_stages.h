// SPDX-License-Identifier: MIT
// Gradients of attention by MMA (mma_fragments.h). A block holds rows of queries or keys and loops over the streamed rows
// (gradient_pairs.h): products of both give the scores and the gradients of the weights, and the rounded factors of the
// streamed rows multiply these rows, 16 of them at a time.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/gpu/mma_fragments.h"

namespace attune {

// Inputs as they lie in memory.
struct RawGradientInputs {
    RawInput query, key, value, grad_out;
};

// A streamed block c that all rows of a tile see whole, or another. g is the query head among the heads that share a key
// head, as in gradient_pairs.h.
struct MmaPairs {
    Halide::Func rows;                                  // (w, k, side, c, t, g, h, b): key and value, or query and grad_out
    Halide::Func streamed_words, streamed_other_words;  // (e, l, n, m, c, t, g, h, b)
    Halide::Func summed_words;                          // likewise, of the rows that are summed
    std::vector<Halide::Func> streamed_totals;  // (k, l, u, c, t, g, h, b): lse and delta, where streamed rows are queries
    MmaProduct product, weight_gradient;        // (e, l, p, n, c, t, g, h, b): of resident and streamed rows
    PairWeights of_pair;        // (r, k, u, c, t, g, h, b): k counts a lane's elements of 16 rows u of the streamed block
    Halide::Func weight_words;  // (e, l, p, m, u, c, t, g, h, b)
    Halide::RVar sum_rows, sum_block, sum_head;
    bool has_heads = false;  // sum_head exists: resident rows are keys
};

struct MmaGradient {
    MmaVars v;
    ResidentWords resident, resident_other;
    MmaPairs full, partial;
    Halide::Func accumulator;  // (e, l, p, n, t, h, b): n counts groups of channels
    RecomputedTotals recomputed;
    // (r, k, c, t, g, h, b), for recomputed rows: c counts streamed rows, k is 0.
    Halide::Func product_recomputed, weight_gradient_recomputed;
    PairWeights recomputed_pair;
    Halide::Func out;  // (d, row, h, b), an update over the loops below
    Halide::RVar element, slot, tile;
};

MmaGradient mma_gradient(GradientOf, const GradientInputs &, const RawGradientInputs &, const MmaShape &, const Score &,
                         const MmaInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
