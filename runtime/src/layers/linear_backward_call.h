// SPDX-License-Identifier: MIT
// A checked call of the gradients of a linear layer, for linear_backward() and the layers that contain one.
#pragma once
#include "attune/linear_backward.h"
#include "layers/linear_call.h"

namespace attune {

// Kernels are chosen with the checks, so that functions of several kernels refuse before the first kernel runs.
struct LinearBackwardCall {
    ConstView x, grad_out;  // of rank 4; x may be not given
    LinearGradients gradients;
    std::int64_t columns = 0, depth = 0;  // N, K
    Choice weight, bias;                  // kernels of the wanted gradients
    ProductCall of_x;
    bool records_x = false;  // the call is recorded with the variant of gradients.x
};
// Checks a call and chooses its kernels. The tensors need not hold their values yet.
Status prepare_linear_backward(const Context::State &, const ConstView &x, const ConstView &weight, const ConstView &grad_out,
                               const LinearGradients &, std::string_view variant, LinearBackwardCall &);
Status run_linear_backward(Context::State &, const LinearBackwardCall &, CallStart);

}  // namespace attune
