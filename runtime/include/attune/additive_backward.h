// SPDX-License-Identifier: MIT
// Gradients of additive attention. The definition is tests/reference/additive_backward_reference.h.
#pragma once
#include "attune/additive.h"
#include "attune/sdpa_backward.h"

namespace attune {

// Gradients of the loss, outputs: each may be left out, and each that is given is overwritten.
struct AdditiveGradients {
    View query = {}, key = {}, value = {};  // rank, type and extents of the input; any strides with a dense last dimension
    View w_query = {}, w_key = {};          // (h, Dq), (h, Dk): as AdditiveOptions has them, each with a dense last dimension
    View b_query = {}, b_key = {};          // (h)
    View w_score = {};                      // (h); only where w_score is given
    View bias = {}, alibi_slopes = {}, sinks = {};  // as in SdpaGradients
};

// Gradients of the loss by the inputs of additive_attention(query, key, value, out, options).
//
// Tensors and options are those of the forward pass, without its outputs lse and weights, which must not be given; dropout
// needs the same seed and offset. Sums, bits, NaN and errors as in sdpa_backward.h. tanh is recomputed: nothing of size (B, Sq,
// Sk, h) or (Sq, Sk) is stored but a bias gradient of that size. Where query or key is projected, the gradient of its
// projection is held in scratch, and linear_backward() takes it to the tensor, weight and bias. b_score has no gradient: it
// moves every score alike, and out does not depend on it unless there are sinks or softcap.
ATTUNE_API Status additive_attention_backward(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                              const SdpaForward &, const AdditiveGradients &,
                                              const AdditiveOptions & = {}) noexcept;

}  // namespace attune
