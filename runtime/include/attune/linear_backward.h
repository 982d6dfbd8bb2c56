// SPDX-License-Identifier: MIT
// Gradients of linear layers. The definition is tests/reference/linear_backward_reference.h.
#pragma once
#include "attune/linear.h"

namespace attune {

// Gradients of the loss, outputs: each may be left out, and each that is given is overwritten.
struct LinearGradients {
    View x = {};       // (..., K), as x
    View weight = {};  // (N, K)
    View bias = {};    // (N)
};

// Gradients of the loss by the inputs of linear(x, weight, bias, out), from the gradient by out.
//
//   x (..., K)   weight (N, K), not packed   grad_out (..., N)
//
//   gradients.x = grad_out weight   gradients.weight = grad_out^T x   gradients.bias = the sum of all rows of grad_out
//
// Types, ranks, strides and errors as in linear.h. Only gradients.x reads weight and only gradients.weight reads x; a tensor
// that is not read may be left out. Bits depend on types, the sizes N and K and, except in gradients.x, on the number of rows
// alone. A row of grad_out that is all zeros takes no part in gradients.weight, whatever x holds there. Without rows
// gradients.weight and gradients.bias are 0. Outputs must not overlap each other or an input. options.variant names a variant
// of transposed_dot, which computes gradients.weight and gradients.bias, or of batch_dot, which computes gradients.x.
//
// A task computes one tile of a gradient, of at least 32 rows: a gradient no larger than a tile is summed by one thread,
// however many rows x has. Rows that are neither a single stride apart nor one after the other in memory are copied first.
ATTUNE_API Status linear_backward(Context &, const ConstView &x, const ConstView &weight, const ConstView &grad_out,
                                  const LinearGradients &, const LinearOptions & = {}) noexcept;

}  // namespace attune
