// SPDX-License-Identifier: MIT
// Gradients of the multi-head attention layer. The definition is tests/reference/multi_head_backward_reference.h.
#pragma once
#include "attune/multi_head.h"
#include "attune/sdpa_backward.h"

namespace attune {

// Gradients of the members of MultiHeadWeights, outputs: that of a bias only where the layer has the bias.
struct MultiHeadWeightGradients {
    View query = {}, key = {}, value = {}, out = {};
    View query_bias = {}, key_bias = {}, value_bias = {}, out_bias = {};
};

// Gradients of the loss, outputs: each may be left out, and each that is given is overwritten.
struct MultiHeadGradients {
    // Shapes of the inputs; each is the gradient by that argument alone: where query, key and value are the same tensor, its
    // gradient is their sum.
    View query = {}, key = {}, value = {};
    MultiHeadWeightGradients weights = {};
    SdpaGradients attention = {};  // of options.attention; its query, key and value are left out
};

// Gradients of the loss by the inputs of multi_head_attention(query, key, value, weights, out, options), from grad_out.
//
//   query (B, Sq, Eq)   key (B, Sk, Ek)   value (B, Sk, Ev)   grad_out (B, Sq, Eo)
//
// Tensors, weights and options are those of the forward pass, without its outputs lse and attention weights, which must not be
// given; dropout needs the same seed and offset. Projections and attention are recomputed, in scratch of the Context of about
// eight times the projected query; nothing of size (Sq, Sk) is stored. Queries without keys, and keys that no query sees, have
// gradients of 0 and no part in those of weights, whatever they hold. options.attention.variant names a variant of
// sdpa_backward. Bits and errors as in sdpa_backward.h and linear_backward.h, with the names used here.
ATTUNE_API Status multi_head_attention_backward(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                                const MultiHeadWeights &, const ConstView &grad_out, const MultiHeadGradients &,
                                                const MultiHeadOptions & = {}) noexcept;

}  // namespace attune
