// SPDX-License-Identifier: MIT
// Two attentions of the same queries over different keys make the attention over all of them.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"

namespace attune {

// lse = log(exp(lse_a) + exp(lse_b)), out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b: what one call over the keys of
// both would give (split contexts, prefixes shared by a batch, caches on several machines).
//
//   out_a, out_b, out (B, Hq, Sq, Dv)   lse_a, lse_b, lse (B, Hq, Sq), natural logarithm
//
// or all without B, or without B and Hq. out_a, out_b and out are of one type of f32, f64, bf16, f16; lse_a, lse_b and lse f64
// for f64, else f32. An lse of -inf means a query without keys: the result is the other part, out and lse as they are, NaN too,
// whatever this row holds; both -inf give 0 and -inf. Otherwise an lse that is NaN makes its row of out and lse NaN, and NaN in
// out_a or out_b its element. lse need not be given. out may be the very view out_a or out_b, and lse lse_a or lse_b (the
// same memory and strides); otherwise outputs must not overlap inputs. Any strides with a dense last dimension of out_a, out_b
// and out.
ATTUNE_API Status merge_attention(Context &, const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b,
                                  const ConstView &lse_b, const View &out, const View &lse = {}) noexcept;

}  // namespace attune
