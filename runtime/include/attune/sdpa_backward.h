// SPDX-License-Identifier: MIT
// Gradients of scaled dot-product attention and its relatives. The definition is tests/reference/sdpa_backward_reference.h.
#pragma once
#include "attune/sdpa.h"

namespace attune {

// Results of the forward pass, and the gradients of a loss by them.
struct SdpaForward {
    ConstView out;            // (B, Hq, Sq, Dv), as the forward pass wrote it
    ConstView lse;            // (B, Hq, Sq): SdpaOptions::lse of the forward pass
    ConstView grad_out;       // shape of out
    ConstView grad_lse = {};  // shape of lse; left out: the loss does not depend on lse
};

// Gradients of the loss, outputs: each may be left out, and each that is given is overwritten.
struct SdpaGradients {
    View query = {}, key = {}, value = {};  // rank, type and extents of the input; any strides with a dense last dimension
    View bias = {};                         // type and extents of SdpaOptions::bias; summed over broadcast dimensions
    View alibi_slopes = {};                 // f32, extents of SdpaOptions::alibi_slopes; (Hq) for the standard ones
    View sinks = {};                        // f32 (Hq)
    View score_weight = {};                 // of Score::general: (Dq, Dk), type of query
};

// Gradients of the loss by the inputs of scaled_dot_product_attention(query, key, value, out, options).
//
// Tensors and options are those of the forward pass, without its outputs lse and weights, which must not be given; dropout
// needs the same seed and offset. Weights are recomputed from lse (Dao et al., 2022): nothing of size (Sq, Sk) is stored but a
// bias gradient of that size. A query without keys, and a key that no query sees, has gradients of 0, whatever they hold; NaN
// elsewhere propagates. The order of sums depends on types, sizes of a batch entry and options alone: bits do not depend on
// threads, on other batch entries (except in gradients that are summed over the batch), nor on which gradients are wanted.
// 16-bit types are computed in f32. Errors as in sdpa.h.
ATTUNE_API Status scaled_dot_product_attention_backward(Context &, const ConstView &query, const ConstView &key,
                                                        const ConstView &value, const SdpaForward &, const SdpaGradients &,
                                                        const SdpaOptions & = {}) noexcept;

}  // namespace attune
