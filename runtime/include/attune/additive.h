// SPDX-License-Identifier: MIT
// Additive attention (Bahdanau et al., 2015), forward. The definition of the result is tests/reference/additive_reference.h.
#pragma once
#include "attune/sdpa.h"

namespace attune {

struct AdditiveOptions {
    // Projection weights, (h, Dq) and (h, Dk), and their biases (h). Each may be left out: query or key is then projected
    // already, has width h and no bias. A decoder projects the keys once (linear()) and calls with the projected keys.
    ConstView w_query = {}, w_key = {};
    ConstView b_query = {}, b_key = {};
    ConstView w_score = {};  // (h); left out: all ones
    double b_score = 0;      // added to every score: changes lse and raw scores, never out; in f32 a number that f32 holds
    // Masks, bias, dropout, lse, weights, variant... of the score above, as in sdpa.h. The scale multiplies the sum over h;
    // default 1. score and score_weight must be left as they are.
    SdpaOptions attention = {};
};

// x(i, j) = scale * (sum over h of w_score(h) tanh((W_q q_i + b_q)(h) + (W_k k_j + b_k)(h)) + b_score)
// out = softmax(x) value
//
//   query (B, Hq, Sq, Dq)   key (B, Hkv, Sk, Dk)   value (B, Hkv, Sk, Dv)   out (B, Hq, Sq, Dv)
//
// or of rank 3 or 2; types, strides, heads and errors as in sdpa.h. Nothing of size (B, Sq, Sk, h) is stored. A key that only a
// mask, bias or window hides, and that has a channel (after projection) beyond 22 or NaN, may change the last bits; where raw
// scores (WeightsMode::scaled, capped) are asked for, so may such a key beyond valid_lens. Without projections, in f32, the
// error of the sum is at most 2e-6 times the sum of |w_score| for any query and key. All tensors may be on a device (f32,
// without projections).
ATTUNE_API Status additive_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                     const View &out, const AdditiveOptions & = {}) noexcept;

}  // namespace attune
