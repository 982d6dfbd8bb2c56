// SPDX-License-Identifier: MIT
// Attention over a packed batch: sequences of different lengths, one after another, without padding.
#pragma once
#include "attune/sdpa.h"

namespace attune {

// Self-attention of each sequence s: for s in [0, B), rows [cu_seqlens_q[s], cu_seqlens_q[s + 1]) of query and out and rows
// [cu_seqlens_k[s], cu_seqlens_k[s + 1]) of key and value are one batch entry of scaled_dot_product_attention. Work is
// proportional to the number of (query, key) pairs within sequences.
//
//   query (Tq, Hq, Dk)   key (Tk, Hkv, Dk)   value (Tk, Hkv, Dv)   out (Tq, Hq, Dv)
//   cu_seqlens_q, cu_seqlens_k: int32 (B + 1), from 0, never falling, at most Tq and Tk (rows beyond are not written)
//
// Types and layouts are those of scaled_dot_product_attention. A sequence may be empty: its queries give 0, as queries without
// keys do. Options count within a sequence: Causal::bottom_right has off = its keys - its queries, `offsets` and `alibi_slopes`
// (B, Hq) have an entry per sequence, dropout counts b, i and j as the sequence and the positions within it. lse is (Hq, Tq).
// Refused: bias, mask, weights, valid_lens, cache_lens, Score::general. A sequence's result has the bits of the same call for
// that sequence alone. Tensors may be on a device (docs/cuda.md); cu_seqlens_q, cu_seqlens_k and `offsets` are on the host.
ATTUNE_API Status variable_length_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                            const ConstView &cu_seqlens_q, const ConstView &cu_seqlens_k, const View &out,
                                            const SdpaOptions & = {}) noexcept;

}  // namespace attune
