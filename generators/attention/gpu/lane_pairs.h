// SPDX-License-Identifier: MIT
// Pairs whose gradients a lane of a GPU computes one at a time, from products that it sums itself: of captured buffers, biases
// and slopes, whose elements belong to no tile of queries or keys.
#pragma once
#include "generators/attention/gpu/gradient_pairs.h"

namespace attune {

struct LanePairs {
    const GradientInputs &in;
    const Score &score;
    std::function<Halide::Expr(Halide::Expr)> exp2;
    const SdpaInputs &f = in.forward;

    Halide::Expr key_head(const Halide::Expr &h) const { return h / (f.query_heads / f.key_heads); }
    Index index(const Halide::Expr &j, const Halide::Expr &i, const Halide::Expr &h, const Halide::Expr &b) const;
    // Whether the lengths and bands leave a pair.
    Halide::Expr is_seen(const Index &) const;
    // A factor of the weights, as a function of the score.
    ScoreFunction factor() const;

    // Sums over channels in place(pair): of query and key, of grad_out and value.
    using Place = std::vector<Halide::Var>;
    Halide::Func product(const std::string &name, const Place &, const Index &) const;
    Halide::Func weight_gradient(const std::string &name, const Place &, const Index &) const;

    // The score of a pair after all steps, and before step `of`; its weight; the gradients by the weight and by the score,
    // where the former is given. Those of a pair that is masked may be NaN.
    struct Pair {
        Halide::Expr score, before, weight, by_weight, by_score;
    };
    Pair pair(const Halide::Expr &product, const Halide::Expr &weight_gradient, const Index &, std::size_t of = 0) const;

private:
    Halide::Func sum_of_products(const std::string &name, const Place &, const Index &, const Halide::Func &of_query,
                                 const Halide::Func &of_key, const Halide::Expr &channels) const;
};

}  // namespace attune
