// SPDX-License-Identifier: MIT
// Calls of users' attention, made by the functions of a library of attune_add_attention().
#pragma once
#include "attune/block_mask.h"
#include "attune/context_parallel.h"
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

// The functions of context_parallel.h that take a user's attention.
enum class Collective { ring_attention, gathered_attention, head_parallel_attention, sharded_decode };
ATTUNE_API Status run_user_attention_over_ranks(Context &, Collective, const Communicator &, const ParallelPlan &,
                                                const AttentionRecord &, const ConstView &query, const ConstView &key,
                                                const ConstView &value, const View &out, const ParallelOptions &,
                                                ArrayView<const CaptureArgument>) noexcept;
ATTUNE_API Status run_user_attention_backward_over_ranks(Context &, const Communicator &, const ParallelPlan &,
                                                         const AttentionRecord &, const ConstView &query, const ConstView &key,
                                                         const ConstView &value, const SdpaForward &, const SdpaGradients &,
                                                         ArrayView<const View> grad_captures, const ParallelOptions &,
                                                         ArrayView<const CaptureArgument>) noexcept;

}  // namespace attune::detail
