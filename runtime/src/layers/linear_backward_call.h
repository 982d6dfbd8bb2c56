// SPDX-License-Identifier: MIT
// A checked call of the gradients of a linear layer, for linear_backward() and for what is built of it.
#pragma once
#include "attune/linear_backward.h"
#include "layers/linear_call.h"

namespace attune {

// Its kernels are chosen: so functions of several kernels refuse all that they do before the first of these runs.
struct LinearBackwardCall {
    ConstView x, grad_out;  // of rank 4; x may be not given
    LinearGradients gradients;
    std::int64_t columns = 0, depth = 0;  // N, K
    Choice weight, bias;                  // of the gradients that are wanted
    ProductCall of_x;
    bool records_x = false;  // the variant that is recorded is that of gradients.x
};
// The tensors need not hold their values yet.
Status prepare_linear_backward(const Context::State &, const ConstView &x, const ConstView &weight, const ConstView &grad_out,
                               const LinearGradients &, std::string_view variant, LinearBackwardCall &);
Status run_linear_backward(Context::State &, const LinearBackwardCall &, CallStart);

}  // namespace attune
