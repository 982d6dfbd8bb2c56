// SPDX-License-Identifier: MIT
// What an attention is made of: how a query and a key give a number, and how that number becomes the score that is
// normalised. Everything here is written in terms of an index and of captured buffers; nothing knows a loop.
#pragma once
#include "attune/generator/attention.h"

namespace attune {

// The number that a query and a key give: finish(sum over channels of weight(channel) * contribution(term(q, k))). An empty
// function leaves its argument as it is; an empty term is the product, an empty weight 1.
struct PairTerm {
    // Written with Halide's tanh(), exp()...: its derivatives are taken from it.
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> term;
    // How the term is computed of what is computed beforehand of each query and key alone. Empty: precise(term(q, k)).
    std::function<Halide::Expr(Halide::Expr)> query, key;
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> computed;
    std::function<Halide::Expr(Halide::Expr term)> contribution;
    std::function<Halide::Expr(Halide::Expr channel)> weight;
    std::function<Halide::Expr(Halide::Expr sum, const Index &at)> finish;
    // Of gradients: the product is of query and key over their norms (finish and prepared say the same to the forward).
    bool unit_rows = false;
    std::vector<Halide::Func> prepared;  // what finish or weight read, computed before anything else
};

// What channel d of a query and a key adds to the sum, weighted; its parts are the term and the contribution of a term.
Halide::Expr weighted_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key, const Halide::Expr &channel);
Halide::Expr computed_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key);
Halide::Expr contribution_of(const PairTerm &, const Halide::Expr &term);

// The scaled number to a score, in natural units. Written with Halide's tanh(), exp()...: its derivative is taken from it, and
// then calls become expressions that vectorise (math/precise.h).
using ScoreFunction = std::function<Halide::Expr(Halide::Expr score, const Index &at)>;
// True where key j takes part for query i.
using MaskFunction = std::function<Halide::Expr(const Index &at)>;

// One change of all scores: a score function, a mask function, or both of them, of which the mask is asked about what it reads
// and not about the new score. A score below lowest_score() counts as masked.
struct ScoreStep {
    ScoreFunction score;
    MaskFunction mask;
    Halide::Expr when;         // names inputs of the kernel alone, and is asked once; undefined: always
    bool reads_pairs = false;  // through Index::of_pair
    bool may_mask = false;     // as every mask function may
    bool in_blocks = false;    // what it masks is in the BlockMask of the inputs
};

struct Score {
    PairTerm pair;
    std::vector<ScoreStep> steps;                            // in order; empty: the scaled number is the score
    std::function<Halide::Expr(const Index &)> probability;  // a factor of the weights behind the softmax; empty: 1
    bool scaled_first = false;                               // scores are scaled before the softmax in any case
    // Scores that no step changes are scaled to base 2 before the softmax, which rounds them: for a form that has no register
    // left for the factor of their differences.
    bool scaled_to_base2 = false;
    bool in_base2() const { return scaled_to_base2 && !changes_scores(); }

    // Some step changes scores that count.
    bool changes_scores() const {
        for (const ScoreStep &step : steps)
            if (step.score) return true;
        return false;
    }
    // Scores are scaled before the softmax. Else their differences are, by the magnitude of the scale, which takes a product
    // less; its sign is then the query's, which only a score that is linear in the query has.
    bool scales_scores() const { return scaled_first || changes_scores(); }
    // `all`, and no step masks any of it. `whole_block` says so of steps in blocks; another that is asked can mask any key.
    Halide::Expr and_unmasked(Halide::Expr all, const Halide::Expr &whole_block) const {
        for (const ScoreStep &step : steps) {
            if (!step.may_mask) continue;
            all = all && (step.in_blocks ? whole_block : step.when.defined() ? !step.when : Halide::Internal::const_false());
        }
        return all;
    }
};

}  // namespace attune
