// What is computed where products take pairs of bf16: both products as sums over pairs along their reduction, of the query's
// and key's channels and of the weights' and values' keys. Scores, masks and merge are those of sdpa_stages.h. It differs from
// them in rounding: weights are rounded to bf16 before they are multiplied with values.
#pragma once
#include "generators/sdpa/sdpa_stages.h"

namespace attune {

// e is the element of a pair. query_t is (e, r, d, t, h, b) and weight (e, r, k, c, t, h, b), where d and k count pairs; weight
// is a Tuple {rounded, exact}.
struct PairStages {
    SdpaStages s;
    Halide::Func packed_value;  // (e, d, k, h, b) pairs of keys, of the whole of V
    // Where products are of whole matrix tiles, full chunks take them: the rows of one factor lie along the reduction, the other
    // is in pairs, and RVars channel and mixed of `full` count elements, not pairs.
    bool in_tiles = false;
    Halide::Func key_rows, value_rows;  // (d, k, h, b) the whole of K; (k, d, h, b) the whole of V, transposed
    // Of full and of part.
    struct Pairs {
        Halide::Func pair_sum;              // (e, r, c, t, h, b) the exact weights of every other key
        Halide::RVar channel, weight, sum;  // the element of a pair, in each reduction over pairs
        std::vector<Halide::RVar> mixed;
    } full, part;

    Halide::Var e{"e"};
};

// query, key and value are bf16, their head size is even. round_pairs turns a float (of e, r) into bf16.
PairStages pair_stages(const SdpaInputs &, const SdpaShape &, const Score &,
                       const std::function<Halide::Expr(Halide::Expr)> &round_pairs, bool in_tiles);

// The same where rows are those of sdpa_split_stages.
PairStages pair_split_stages(const SdpaInputs &, const SdpaShape &, const Score &,
                             const std::function<Halide::Expr(Halide::Expr)> &round_pairs);

}  // namespace attune
