// SPDX-License-Identifier: MIT
// Gradient of softmax with valid lengths. The definition is tests/reference/masked_softmax_backward_reference.h.
#pragma once
#include "attune/masked_softmax.h"

namespace attune {

// grad_scores = out (grad_out - sum of out grad_out over the row): the gradient of a loss by the scores of
// masked_softmax(scores, out, options), from its result out and the gradient by out.
//
//   out, grad_out, grad_scores (B, Sk), (B, Sq, Sk) or (B, H, Sq, Sk)
//
// Options, types, strides and errors as in masked_softmax.h. A score whose weight is 0 has the gradient 0 and takes no part,
// whatever grad_out holds there; so a row without keys has gradients of 0. With MaskFill::seed masked scores are constants with
// gradient 0, though their weights, which may be nonzero, take part in the sum; with MaskFill::zero valid_lens may be left out.
// NaN elsewhere propagates to its row. grad_scores may be the memory of grad_out or out with the same strides; otherwise they
// must not overlap.
ATTUNE_API Status masked_softmax_backward(Context &, const ConstView &out, const ConstView &grad_out, const View &grad_scores,
                                          const MaskedSoftmaxOptions & = {}) noexcept;

}  // namespace attune
