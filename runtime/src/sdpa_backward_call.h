// A checked call of the gradients of attention, and its kernels.
#pragma once
#include "attune/sdpa_backward.h"
#include "sdpa_call.h"

namespace attune {

struct BackwardCall {
    SdpaCall forward;                // out is an input here
    ConstView lse, grad_lse;         // (B, Hq, Sq); grad_lse may be not given
    ConstView grad_out;              // (B, Hq, Sq, Dv)
    View query, key, value;          // gradients of rank 4; each may be not given
    View bias, alibi_slopes, sinks;  // as the caller gave them
    bool wants_pairs() const { return bias.given() || alibi_slopes.given(); }
};

// What the kernels need of each query: lse in base 2, and sum out grad_out - grad_lse; both (B, Hq, Sq), f64 for f64, else f32.
struct BackwardRows {
    View lse, delta;
};

struct BackwardChoice {
    Choice tiles, rows, sinks;
};
Status choose_backward(const Context::State &, const BackwardCall &, std::string_view variant, BackwardChoice &);

// Runs the kernels of the choice. What needs no kernel is written here, and then choice.tiles says why.
Status run_backward(Context &, const BackwardCall &, BackwardChoice &);

}  // namespace attune
