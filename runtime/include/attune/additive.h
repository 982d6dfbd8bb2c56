// SPDX-License-Identifier: MIT
// Additive attention (Bahdanau et al., 2015), forward. The definition of the result is tests/reference/additive_reference.h.
#pragma once
#include "attune/sdpa.h"

namespace attune {

struct AdditiveOptions {
    // Projections, (h, Dq) and (h, Dk), and their biases (h). Each may be left out: then query or key is taken as projected
    // already, its width is h, and it has no bias. A decoder projects the keys once (linear()) and calls with the result.
    ConstView w_query = {}, w_key = {};
    ConstView b_query = {}, b_key = {};
    ConstView w_score = {};  // (h); left out: all ones
    double b_score = 0;      // moves every score: seen in lse and in raw scores, never in out; in f32 a number that f32 holds
    // Masks, bias, dropout, lse, weights, variant... of the score above: each as in sdpa.h. Its scale multiplies the sum
    // over h, default 1. score and score_weight must be left as they are.
    SdpaOptions attention = {};
};

// x(i, j) = scale * (sum over h of w_score(h) tanh((W_q q_i + b_q)(h) + (W_k k_j + b_k)(h)) + b_score)
// out = softmax(x) value
//
//   query (B, Hq, Sq, Dq)   key (B, Hkv, Sk, Dk)   value (B, Hkv, Sk, Dv)   out (B, Hq, Sq, Dv)
//
// or of rank 3 or 2, as in sdpa.h, whose rules of types, strides, heads and errors hold here too. Nothing of size
// (B, Sq, Sk, h) is stored. A key with a channel (after projection) beyond 22, or NaN, that only a mask, bias or window hides
// may change the last bits, and where raw scores (WeightsMode::scaled, capped) are asked for, one beyond valid_lens, too.
// Without projections, in f32, the error of the sum is at most 2e-6 times the sum of |w_score| for any query and key. All may
// be on a device (f32, without projections).
ATTUNE_API Status additive_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                     const View &out, const AdditiveOptions & = {}) noexcept;

}  // namespace attune
