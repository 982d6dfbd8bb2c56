// SPDX-License-Identifier: MIT
// Definition of an attention: the number that a query and a key give, and the steps from that number to the score that is
// normalised. All functions take an index and captured buffers and are independent of loops.
#pragma once
#include "attune/generator/attention.h"

namespace attune {

// Pair term of a query and a key: finish(sum over channels of weight(channel) * contribution(term(q, k))). An empty function is
// the identity; an empty term is the product, an empty weight 1.
struct PairTerm {
    // Written with Halide's tanh(), exp() and the like: the derivatives of the term are taken from this expression.
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> term;
    // The term from values computed beforehand for each query and each key alone. Empty: precise(term(q, k)).
    std::function<Halide::Expr(Halide::Expr)> query, key;
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> computed;
    std::function<Halide::Expr(Halide::Expr term)> contribution;
    std::function<Halide::Expr(Halide::Expr channel)> weight;
    std::function<Halide::Expr(Halide::Expr sum, const Index &at)> finish;
    // For gradients: query and key are divided by their norms (finish and prepared express the same for the forward).
    bool unit_rows = false;
    std::vector<Halide::Func> prepared;  // inputs of finish or weight, computed before anything else
};

// The weighted contribution of channel d of a query and a key; the term; and the contribution of a term.
Halide::Expr weighted_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key, const Halide::Expr &channel);
Halide::Expr computed_term(const PairTerm &, const Halide::Expr &query, const Halide::Expr &key);
Halide::Expr contribution_of(const PairTerm &, const Halide::Expr &term);

// Map from the scaled number to a score, in natural units. Written with Halide's tanh(), exp() and the like: its derivative is
// taken from that expression, and then the calls become expressions that vectorise (math/precise.h).
using ScoreFunction = std::function<Halide::Expr(Halide::Expr score, const Index &at)>;
// True where key j takes part for query i.
using MaskFunction = std::function<Halide::Expr(const Index &at)>;

// One change of all scores: a score function, a mask function, or both, where the mask sees the score's inputs and not the new
// score. A score below lowest_score() counts as masked.
struct ScoreStep {
    ScoreFunction score;
    MaskFunction mask;
    Halide::Expr when;         // depends on inputs of the kernel alone; evaluated once; undefined: always
    bool reads_pairs = false;  // through Index::of_pair
    bool may_mask = false;     // every mask function may
    bool in_blocks = false;    // its masked pairs are in the BlockMask of the inputs
};

struct Score {
    PairTerm pair;
    std::vector<ScoreStep> steps;                            // in order; empty: the scaled number is the score
    std::function<Halide::Expr(const Index &)> probability;  // factor of the weights behind the softmax; empty: 1
    bool scaled_first = false;                               // scores are scaled before the softmax in any case
    // Scores that no step changes are scaled to base 2, and so rounded, before the softmax: for a form that has no register
    // left for the factor of their differences.
    bool scaled_to_base2 = false;
    bool in_base2() const { return scaled_to_base2 && !changes_scores(); }

    // Whether some step changes scores that count.
    bool changes_scores() const {
        for (const ScoreStep &step : steps)
            if (step.score) return true;
        return false;
    }
    // Whether scores are scaled before the softmax. Otherwise their differences are, by the magnitude of the scale, which saves
    // a product; the query then takes the sign of the scale, so the score must be linear in the query.
    bool scales_scores() const { return scaled_first || changes_scores(); }
    // `all`, and no step masks any such key. `whole_block` decides for steps in blocks; other active steps may mask any key.
    Halide::Expr and_unmasked(Halide::Expr all, const Halide::Expr &whole_block) const {
        for (const ScoreStep &step : steps) {
            if (!step.may_mask) continue;
            all = all && (step.in_blocks ? whole_block : step.when.defined() ? !step.when : Halide::Internal::const_false());
        }
        return all;
    }
};

}  // namespace attune
