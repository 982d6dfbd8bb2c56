// SPDX-License-Identifier: MIT
// Dropout of the weights behind a softmax.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// Dropout of weights in the conventions of runtime/include/attune/dropout.h. Not defined: the kernel has no dropout.
struct Dropout {
    // uint32; first_query, first_key and first_head (b * Hq + h) are counters of the first query, key and head, and heads is Hq
    // of the counters; kept iff the random word is at least threshold
    Halide::Expr seed_low, seed_high, offset, first_query, first_key, first_head, heads, threshold;
    Halide::Expr keep_scale;  // float or double: 1 / (1 - p)
};

// Dropout as a factor of a pair's weight (Score::probability): keep_scale where the pair's random word keeps it, else 0. Each
// pair computes the four words of its counter, for forms whose lanes do not hold four neighbouring keys of one query; the other
// forms share them (Builder::drop_out()).
std::function<Halide::Expr(const Index &)> kept_share(const Dropout &);

}  // namespace attune
