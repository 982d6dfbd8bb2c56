// SPDX-License-Identifier: MIT
#include "generators/attention/equations/score.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;

Expr computed_term(const PairTerm &pair, const Expr &query, const Expr &key) {
    if (pair.computed) return pair.computed(query, key);
    return pair.term ? precise(pair.term(query, key)) : query * key;
}
Expr contribution_of(const PairTerm &pair, const Expr &term) {
    return pair.contribution ? precise(pair.contribution(term)) : term;
}
Expr weighted_term(const PairTerm &pair, const Expr &query, const Expr &key, const Expr &channel) {
    const Expr term = contribution_of(pair, computed_term(pair, query, key));
    return pair.weight ? pair.weight(channel) * term : term;
}

}  // namespace attune
