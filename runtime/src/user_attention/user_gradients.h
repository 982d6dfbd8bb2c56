// SPDX-License-Identifier: MIT
// The gradients of a user's attention on the host.
#pragma once
#include "attention_backward/sdpa_backward_call.h"
#include "user_attention/user_call.h"

namespace attune {

// Arguments of the caller.
struct UserGradients {
    const UserCall &user;
    const ConstView &query, &key, &value;
    const SdpaForward &forward;
    const SdpaGradients &gradients;
    ArrayView<const View> grad_captures;  // one for each capture; a view that is not given is not wanted
    const SdpaOptions &options;
};

// Checks everything and chooses the kernels.
Status prepare_user_gradients(const Context::State &, const UserGradients &, BackwardCall &, BackwardChoice &);
// Checks, computes and records a call, with reason `why_here` where that is not empty.
Status run_user_gradients(Context &, Context::State &, const UserGradients &, std::string_view why_here = {});

}  // namespace attune
