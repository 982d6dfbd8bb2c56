// SPDX-License-Identifier: MIT
// A user's attention over ranks. A source of its own: programs without users' attention do not link these functions.
#include "context_parallel/collective.h"

namespace attune::detail {

Status run_user_attention_over_ranks(Context &context, Collective function, const Communicator &communicator,
                                     const ParallelPlan &plan, const AttentionRecord &attention, const ConstView &query,
                                     const ConstView &key, const ConstView &value, const View &out,
                                     const ParallelOptions &options, ArrayView<const CaptureArgument> captures) noexcept {
    RankForward *forward = &ring_forward;
    switch (function) {
    case Collective::ring_attention: break;
    case Collective::gathered_attention: forward = &gathered_forward; break;
    case Collective::head_parallel_attention: forward = &head_parallel_forward; break;
    case Collective::sharded_decode: forward = &decode_forward; break;
    }
    return answer_forward(context, communicator, plan, query, key, value, out, options, *forward, {&attention, captures});
}

Status run_user_attention_backward_over_ranks(Context &context, const Communicator &communicator, const ParallelPlan &plan,
                                              const AttentionRecord &attention, const ConstView &query, const ConstView &key,
                                              const ConstView &value, const SdpaForward &forward,
                                              const SdpaGradients &gradients, ArrayView<const View> grad_captures,
                                              const ParallelOptions &options,
                                              ArrayView<const CaptureArgument> captures) noexcept {
    return answer_backward(context, communicator, plan, query, key, value, forward, gradients, options, {&attention, captures},
                           grad_captures);
}

}  // namespace attune::detail
