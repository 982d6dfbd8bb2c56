// SPDX-License-Identifier: MIT
// Softmax over the last dimension with valid lengths.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <string_view>

namespace attune {

// What a masked score becomes before the softmax.
//   zero  -inf: its weight is 0, and a row without keys is all zeros
//   seed  -1e6, as in the textbook's masked_softmax: a row without keys is uniform over all of them
enum class MaskFill { zero, seed };

struct MaskedSoftmaxOptions {
    ConstView valid_lens = {};  // int32 (B) or (B, Sq) in [0, Sk]: only scores j < len take part; the same for every head
    MaskFill fill = MaskFill::zero;
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch. Read in the call alone
};

// out = softmax of scores over the last dimension.
//
//   scores, out (B, Sk), (B, Sq, Sk) or (B, H, Sq, Sk)
//
// Both f32 or both f64, any strides with a dense last dimension, any extents from 0. What masked scores hold has no effect;
// NaN in others propagates to their row. out may be the same memory as scores with the same strides; else they must not
// overlap. All may be on a device (f32): lengths are then taken within the keys, and not checked.
ATTUNE_API Status masked_softmax(Context &, const ConstView &scores, const View &out,
                                 const MaskedSoftmaxOptions & = {}) noexcept;

}  // namespace attune
