// SPDX-License-Identifier: MIT
// What is computed where products take pairs of bf16: both products as sums over pairs along their reduction, of the query's
// and key's channels and of the weights' and values' keys. Scores, masks and merge are those of blocked_stages.h. It differs
// from them in rounding: weights are rounded to bf16 before they are multiplied with values.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

// e is the element of a pair. query_t is (e, r, d, t, h, b) and weight (e, r, k, c, t, h, b), where d and k count pairs; weight
// is a Tuple {rounded, exact}.
struct SdpaBf16DotStages {
    SdpaStages s;
    Halide::Func packed_value;  // (e, d, k, h, b) pairs of keys
    // Of full and of partial.
    struct Pairs {
        Halide::Func pair_sum;              // (e, r, c, t, h, b) the exact weights of every other key
        Halide::RVar channel, weight, sum;  // the element of a pair, in each reduction over pairs
        std::vector<Halide::RVar> pv;
    } full, partial;

    Halide::Var e{"e"};
};

using RoundPairs = std::function<Halide::Expr(Halide::Expr)>;

// query, key and value are bf16, their head size is even. round_pairs turns a float (of e, r) into bf16.
SdpaBf16DotStages sdpa_bf16_dot_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                                       const RoundPairs &round_pairs);

// The same where rows are those of sdpa_split_stages.
SdpaBf16DotStages sdpa_bf16_dot_split_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                                             const RoundPairs &round_pairs);

// What tiles share with them (amx_stages.h). A reduction over the keys of a KV block, two at a time:
struct PairKeys {
    Halide::RDom dom;  // element, pair in block, block
    int width;
    Halide::Expr pair() const { return dom.z * (width / 2) + dom.y; }
    Halide::Expr key() const { return pair() * 2 + dom.x; }
    KeyLoop loop() const { return {dom.y, dom.z}; }
};
PairKeys pair_keys(const Builder &, const std::string &name, bool masked);

}  // namespace attune
