// What a plan is asked for, of a case.
#pragma once
#include "tests/support/sdpa_case.h"

namespace attune_test {

inline attune::SdpaProblem problem_of(const SdpaCase &c, attune::DType dtype) {
    const bool scored = c.softcap > 0 || !c.bias.empty() || !c.mask.empty() || c.alibi != Alibi::none || c.sinks;
    const bool dropout = c.dropout.probability > 0 && c.dropout.probability < 1;
    const std::int64_t left = c.window.left, right = c.causal != attune::Causal::none ? 0 : c.window.right;
    const std::int64_t window_keys = left < 0 || right < 0 ? 0 : left + right + 1;
    return {dtype,         c.batch,
            c.query_heads, c.key_heads,
            c.queries,     c.keys,
            c.head_dim,    c.value_dim,
            c.score,       scored,
            dropout,       !c.bias.empty() || !c.mask.empty(),
            window_keys,   (left < 0) != (right < 0)};
}

}  // namespace attune_test
