// SPDX-License-Identifier: MIT
// What is computed: a gradient of attention where the lanes of a warp multiply matrices together (mma_fragments.h). A block
// holds rows of queries or keys and walks the rows of the other side (gradient_pairs.h): products of both give the scores and
// the gradients of the weights, and what the other rows count, rounded, multiplies these rows, 16 of them at a time.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/gpu/mma_fragments.h"

namespace attune {

// The inputs as they are in memory.
struct RawGradientInputs {
    RawInput query, key, value, grad_out;
};

// A chunk c that all rows of a tile see whole, or another. g is the query head among those that share a key head, as in
// gradient_pairs.h.
struct FragmentPairs {
    Halide::Func rows;                          // (w, k, side, c, t, g, h, b) key and value, or query and grad_out
    Halide::Func met_words, met_other_words;    // (e, l, n, m, c, t, g, h, b)
    Halide::Func summed_words;                  // the same of what is summed
    std::vector<Halide::Func> met_totals;       // (k, l, u, c, t, g, h, b) lse and delta, where rows that are met are queries
    FragmentProduct product, product_gradient;  // (e, l, p, n, c, t, g, h, b) of own rows and these
    PairWeights of_pair;                        // (r, k, u, c, t, g, h, b) k counts what a lane has of 16 rows u of the chunk
    Halide::Func weight_words;                  // (e, l, p, m, u, c, t, g, h, b)
    Halide::RVar running_rows, running_chunk, running_head;
    bool has_heads = false;  // running_head is there: of rows of keys
};

struct FragmentGradient {
    FragmentVars v;
    OwnWords own, own_other;
    FragmentPairs full, part;
    Halide::Func running;  // (e, l, p, n, t, h, b) groups of channels
    SettledTotals settled;
    // (r, k, c, t, g, h, b) of rows that are computed once more: c counts the other side's, k is 0.
    Halide::Func product_again, product_gradient_again;
    PairWeights of_pair_again;
    Halide::Func out;  // (d, row, h, b), an update over these
    Halide::RVar element, slot, tile;
};

FragmentGradient fragment_gradient(GradientOf, const GradientInputs &, const RawGradientInputs &, const FragmentShape &,
                                   const Score &, const FragmentInstructions &,
                                   const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
