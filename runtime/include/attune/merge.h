// SPDX-License-Identifier: MIT
// Merge of partial attentions: the same queries over different keys (the combine step of Flash-Decoding, Dao et al., 2023).
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <cstddef>

namespace attune {

// lse = log(exp(lse_a) + exp(lse_b)), out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b: the result of one call over the
// keys of both (split contexts, prefixes shared by a batch, caches on several machines).
//
//   out_a, out_b, out (B, Hq, Sq, Dv)   lse_a, lse_b, lse (B, Hq, Sq), natural logarithm
//
// or all without B, or without B and Hq. out_a, out_b and out have one type of f32, f64, bf16, f16; lse_a, lse_b and lse f64
// for f64, else f32. An lse of -inf means a query without keys: the result is the other part's out and lse unchanged, NaN too,
// whatever this row holds; both -inf give 0 and -inf. Otherwise a NaN lse makes its row of out and lse NaN, and NaN in out_a or
// out_b makes its element NaN. lse need not be given. out may be the very view out_a or out_b, and lse the view lse_a or lse_b
// (same memory and strides); otherwise outputs must not overlap inputs. out_a, out_b and out have any strides with a dense last
// dimension.
ATTUNE_API Status merge_attention(Context &, const ConstView &out_a, const ConstView &lse_a, const ConstView &out_b,
                                  const ConstView &lse_b, const View &out, const View &lse = {}) noexcept;

// One of several parts: out (B, Hq, Sq, Dv) and lse (B, Hq, Sq).
struct PartialAttention {
    ConstView out, lse;
};

// The merge of `count` parts in their order: lse = log(sum of exp(lse of a part)), out = sum of exp(lse of a part - lse) times
// the part's out, rounded to the type once. At least one part; one is copied. Types, ranks, layouts, parts without keys and
// NaN as above: two parts have the bits of the function above, and a row that one part alone has keys for is that part's. out
// may be the very view out of any part, and lse the view lse of any part. On a device at most eight parts. Scratch: the lse of
// all parts, and beyond four parts one f32 (f64) for each element of out.
ATTUNE_API Status merge_attention(Context &, const PartialAttention *parts, std::size_t count, const View &out,
                                  const View &lse = {}) noexcept;

}  // namespace attune
