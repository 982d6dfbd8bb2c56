// SPDX-License-Identifier: MIT
// Row stages of attention's gradients: the values that depend on a query alone, the gradient of sinks, which needs no others,
// and the last sum of the gradients of captured buffers. No vector width, no target.
#pragma once
#include "Halide.h"

namespace attune {

struct BackwardRowsInputs {
    Halide::Func out, grad_out;  // (d, i, h, b)
    Halide::Func lse, grad_lse;  // (i, h, b), in the accumulator's type
    Halide::Expr has_grad_lse, channels;
};

// row_lse: lse; for a query without keys a number far above every score, so that its weights are exactly 0. row_delta: sum out
// grad_out - grad_lse; for a row of out that is all zeros the sum is 0, whatever grad_out holds.
struct BackwardRowsStages {
    Halide::Func product;  // (i, h, b)
    Halide::Func largest;  // (i, h, b): the largest magnitude of out, as bits
    Halide::RVar channel, largest_channel;
    Halide::Func out;  // (i, h, b) Tuple {row_lse, row_delta}
    Halide::Var i{"i"}, h{"h"}, b{"b"};
};
BackwardRowsStages backward_rows_stages(const BackwardRowsInputs &, Halide::Type accumulator);

struct SinkGradientInputs {
    Halide::Func sinks;               // (h), float
    Halide::Func row_lse, row_delta;  // (i, h, b)
    Halide::Expr queries, batch;
};

// Gradient of sinks: - sum over b, i of exp(sink - lse) delta, in double.
struct SinkGradientStages {
    Halide::Func sum, out;  // (h)
    Halide::Var h{"h"};
};
SinkGradientStages sink_gradient_stages(const SinkGradientInputs &);

// The output gradient of a buffer: (j, y) of the sums, or (0, y) where keys are summed too.
struct CaptureSumStages {
    Halide::Func sum, out;  // (j, y)
    Halide::Var j{"j"}, y{"y"};
};
CaptureSumStages capture_sum_stages(const Halide::Func &sums, Halide::Expr keys, Halide::Expr sums_keys, Halide::Type type);

}  // namespace attune
