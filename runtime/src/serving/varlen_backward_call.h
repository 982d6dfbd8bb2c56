// SPDX-License-Identifier: MIT
// Gradients of a packed batch: the steps that calls on the host and on a device share.
#pragma once
#include "attention_backward/sdpa_backward_call.h"
#include "serving/varlen_call.h"

namespace attune {

struct VarlenBackwardCall : VarlenCall {
    BackwardCall all;                     // all rows as one batch entry
    bool sums_slopes = false;             // all sequences share their slopes
    std::vector<BackwardChoice> choices;  // on the host: of each sequence, by its number
    BackwardChoice of_sinks;
    Choice slope_sum;
};

// Arguments of the caller.
struct VarlenBackwardArguments {
    const ConstView &query, &key, &value;
    const SdpaForward &forward;
    const SdpaGradients &gradients;
    const SdpaOptions &options;
};

// Checks a call whose tensors are on the host, or are marked so, and lists its sequences.
Status check_varlen_backward(const VarlenBackwardArguments &, VarlenBackwardCall &);
// The gradient of the sinks is a sum over the rows of all sequences: a call of rows without keys.
BackwardCall call_of_sinks(const VarlenBackwardCall &);
// Turns `call`, a copy of p.all that may have served other sequences, into the call of one sequence. `slopes`: a row for the
// gradients of slopes of each sequence.
void select_gradients(const VarlenBackwardCall &p, const SdpaOptions &, const View &slopes, const Sequence &,
                      BackwardCall &call);

// Gradients on a device: kernels of one sequence after another, in the order of the stream. All kernels are chosen before the
// first one writes.
Status varlen_backward_on_device(Context &, const VarlenBackwardArguments &, VarlenBackwardCall &);

}  // namespace attune
