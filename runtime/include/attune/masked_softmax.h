// SPDX-License-Identifier: MIT
// Softmax over the last dimension, masked by valid lengths.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <string_view>

namespace attune {

// The value of a masked score before the softmax.
//   zero  -inf: its weight is 0, and a row without keys is all zeros
//   seed  -1e6, as in the textbook's masked_softmax: a row without keys is uniform over all its scores
enum class MaskFill { zero, seed };

struct MaskedSoftmaxOptions {
    ConstView valid_lens = {};  // int32 (B) or (B, Sq) in [0, Sk]: only scores j < len take part; the same for every head
    MaskFill fill = MaskFill::zero;
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch. Not kept after the call
};

// out = softmax(scores) over the last dimension.
//
//   scores, out (B, Sk), (B, Sq, Sk) or (B, H, Sq, Sk)
//
// Both f32 or both f64, any strides with a dense last dimension, any extents from 0. The contents of masked scores have no
// effect; NaN in others propagates to their row. out may be the memory of scores with the same strides; otherwise they must not
// overlap. Both may be on a device (f32): lengths are then clamped to [0, Sk], and not checked.
ATTUNE_API Status masked_softmax(Context &, const ConstView &scores, const View &out,
                                 const MaskedSoftmaxOptions & = {}) noexcept;

}  // namespace attune
