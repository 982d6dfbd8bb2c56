// SPDX-License-Identifier: MIT
// The problem of a case, for a plan.
#pragma once
#include "tests/support/sdpa_case.h"

namespace attune_test {

inline attune::SdpaProblem problem_of(const SdpaCase &c, attune::DType dtype) {
    const bool scored = c.softcap > 0 || !c.bias.empty() || !c.mask.empty() || c.alibi != Alibi::none || c.sinks;
    const bool dropout = c.dropout.probability > 0 && c.dropout.probability < 1;
    const attune::SdpaProblem problem{dtype,     c.batch, c.query_heads, c.key_heads,
                                      c.queries, c.keys,  c.head_dim,    c.value_dim,
                                      c.score,   scored,  dropout,       !c.bias.empty() || !c.mask.empty()};
    return attune::with_band(problem, c.causal, c.window);
}

}  // namespace attune_test
