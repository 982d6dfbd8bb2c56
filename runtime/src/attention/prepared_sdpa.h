// SPDX-License-Identifier: MIT
// Calls of scaled_dot_product_attention() and its gradients on the host, in two steps: prepare() checks and refuses, run()
// computes. So functions of several kernels refuse before the first kernel has written anything. prepare() reads no elements
// but those of the options.
#pragma once
#include "attention_backward/sdpa_backward_call.h"
#include "layers/projection.h"

namespace attune {

class PreparedSdpa {
public:
    Status prepare(Context::State &, const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                   const SdpaOptions &);
    // Records the call, with reason `why_here` where that is not empty.
    Status run(Context &, CallStart, std::string_view why_here = {});

private:
    std::optional<Projection> projected_;  // for Score::general
    SdpaCall call_;
    AttentionChoice choice_;
};

class PreparedSdpaBackward {
public:
    Status prepare(Context::State &, const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &,
                   const SdpaGradients &, const SdpaOptions &);
    Status run(Context &, CallStart, std::string_view why_here = {});

private:
    std::optional<Projection> projected_;
    std::optional<ProjectionGradient> of_key_;
    BackwardCall call_;
    BackwardChoice choice_;
    bool is_benchmarked_ = false;  // the wanted gradients are those of the benchmark
};

}  // namespace attune
