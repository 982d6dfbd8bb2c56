// SPDX-License-Identifier: MIT
// Attention by bf16 dot products: both products are sums over pairs along their reduction, the channels of query and key and
// the keys of weights and values. Scores, masks and merge are those of blocked_stages.h; rounding differs: weights are rounded
// to bf16 before the product with values.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

// Stages of the form. e is the element of a pair. query_t is (e, r, d, t, h, b) and weight (e, r, k, c, t, h, b), where d and k
// count pairs; weight is a Tuple {rounded, exact}.
struct SdpaBf16DotStages {
    SdpaStages s;
    Halide::Func packed_value;  // (e, d, k, h, b) pairs of keys
    // Pairs of full and of partial KV blocks.
    struct Pairs {
        Halide::Func pair_sum;              // (e, r, c, t, h, b): sum of the exact weights of every other key
        Halide::RVar channel, weight, sum;  // the element of a pair, in each reduction over pairs
        std::vector<Halide::RVar> pv;
    } full, partial;

    Halide::Var e{"e"};
};

using RoundPairs = std::function<Halide::Expr(Halide::Expr)>;

// query, key and value are bf16 with an even head size. round_pairs turns a float (over e, r) into bf16.
SdpaBf16DotStages sdpa_bf16_dot_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                                       const RoundPairs &round_pairs);

// The form with the rows of sdpa_split_stages.
SdpaBf16DotStages sdpa_bf16_dot_split_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &,
                                             const RoundPairs &round_pairs);

// A reduction over the keys of a KV block, two at a time; AMX tiles (amx_stages.h) use it too.
struct PairKeys {
    Halide::RDom dom;  // element, pair in block, block
    int width;
    Halide::Expr pair() const { return dom.z * (width / 2) + dom.y; }
    Halide::Expr key() const { return pair() * 2 + dom.x; }
    KeyLoop loop() const { return {dom.y, dom.z}; }
};
PairKeys pair_keys(const Builder &, const std::string &name, bool masked);

}  // namespace attune
