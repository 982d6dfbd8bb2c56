// What is computed: what the gradients of attention need of each query alone, and the gradient of sinks, which needs nothing
// else. No vector width, no target.
#pragma once
#include "Halide.h"

namespace attune {

struct BackwardRowsInputs {
    Halide::Func out, grad_out;  // (d, i, h, b)
    Halide::Func lse, grad_lse;  // (i, h, b), in the accumulator's type
    Halide::Expr has_grad_lse, channels;
};

// row_lse: lse in base 2; of a query without keys far above every score, so that its weights are exactly 0.
// row_delta: sum out grad_out - grad_lse.
struct BackwardRowsStages {
    Halide::Func product;  // (i, h, b)
    Halide::RVar channel;
    Halide::Func out;  // (i, h, b) Tuple {row_lse, row_delta}
    Halide::Var i{"i"}, h{"h"}, b{"b"};
};
BackwardRowsStages backward_rows_stages(const BackwardRowsInputs &, Halide::Type accumulator);

struct SinkGradientInputs {
    Halide::Func sinks;               // (h), float
    Halide::Func row_lse, row_delta;  // (i, h, b)
    Halide::Expr queries, batch;
};

// - sum over b, i of exp(sink - lse) delta, in double.
struct SinkGradientStages {
    Halide::Func sum, out;  // (h)
    Halide::RVar query, entry;
    Halide::Var h{"h"};
};
SinkGradientStages sink_gradient_stages(const SinkGradientInputs &);

}  // namespace attune
