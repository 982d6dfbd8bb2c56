// SPDX-License-Identifier: MIT
// Calls of users' attention, made by the functions of a library of attune_add_attention().
#pragma once
#include "attune/block_mask.h"
#include "attune/detail/registration.h"
#include "attune/sdpa_backward.h"
#include <optional>

namespace attune::detail {

// The caller's argument for a capture: a buffer or a number.
struct CaptureArgument {
    ConstView buffer = {};
    std::optional<double> number = {};
};

ATTUNE_API Status run_user_attention(Context &, const AttentionRecord &, const ConstView &query, const ConstView &key,
                                     const ConstView &value, const View &out, const SdpaOptions &,
                                     ArrayView<const CaptureArgument>, BlockMask *) noexcept;
// grad_captures: one view for each capture; a view that is not given means a gradient that is not wanted.
ATTUNE_API Status run_user_attention_backward(Context &, const AttentionRecord &, const ConstView &query, const ConstView &key,
                                              const ConstView &value, const SdpaForward &, const SdpaGradients &,
                                              ArrayView<const View> grad_captures, const SdpaOptions &,
                                              ArrayView<const CaptureArgument>, BlockMask *) noexcept;

}  // namespace attune::detail
