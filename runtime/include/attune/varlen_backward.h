// SPDX-License-Identifier: MIT
// Gradients of attention over a packed batch. The definition is tests/reference/sdpa_backward_reference.h, for each sequence.
#pragma once
#include "attune/sdpa_backward.h"
#include "attune/varlen.h"

namespace attune {

// Gradients of the loss by the inputs of variable_length_attention(query, key, value, cu_seqlens_q, cu_seqlens_k, out,
// options).
//
//   query (Tq, Hq, Dk)   key (Tk, Hkv, Dk)   value (Tk, Hkv, Dv)   forward.out, forward.grad_out (Tq, Hq, Dv)
//   forward.lse, forward.grad_lse (Hq, Tq)   gradients.query, .key, .value: as query, key, value
//   gradients.sinks (Hq)   gradients.alibi_slopes (B, Hq) or (Hq), as the slopes; the latter and sinks are sums over all
//   sequences   gradients.bias, .score_weight: refused, as their inputs are
//
// Tensors, lists and options are those of the forward pass, without its output lse, which must not be given; dropout needs the
// same seed and offset. A sequence may be empty: keys of a sequence without queries, and queries without keys, have gradients
// of 0; rows beyond the last sequence are not written. Gradients of a sequence's rows, and of its slopes, have the bits of the
// same call of scaled_dot_product_attention_backward() for that sequence alone, and no gradient's bits depend on threads.
// Gradients of slopes that all sequences share are summed in f32 in the order of the sequences; those of sinks over all rows at
// once. options.variant names a variant of sdpa_backward. Errors as in varlen.h and sdpa_backward.h.
ATTUNE_API Status variable_length_attention_backward(Context &, const ConstView &query, const ConstView &key,
                                                     const ConstView &value, const ConstView &cu_seqlens_q,
                                                     const ConstView &cu_seqlens_k, const SdpaForward &, const SdpaGradients &,
                                                     const SdpaOptions & = {}) noexcept;

}  // namespace attune
