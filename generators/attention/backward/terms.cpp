// SPDX-License-Identifier: MIT
// Gradients of a score whose terms are no products: of query, key and the weights of the terms. A term is computed once for all
// three.
#include "generators/attention/backward/builder.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/math/precise.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::Variable;

Expr BackwardBuilder::by_sum() const {
    if (!score.pair.finish) return value_of(1);
    const Expr sum = Variable::make(type, "sum");
    const Expr by_sum = score_derivative(score.pair.finish, sum, index(s.q, s.r, s.h));
    if (!Internal::is_const(by_sum)) throw CompileError("attune: what becomes of a sum over channels must be linear\n");
    return by_sum;
}

Expr BackwardBuilder::slope_of(const Expr &term) const {
    if (!score.pair.contribution) return value_of(1);
    return precise(score_derivative([&](Expr x, const Index &) { return score.pair.contribution(x); }, term, {}));
}

void BackwardBuilder::terms(BackwardTile &p, const std::string &suffix, bool masked) const {
    Var d = s.d, r = s.r, q = s.q, u = s.u, h = s.h, t = s.t;
    Expr term =
        computed_term(score.pair, s.query_rows(d, u * numerics.tile_q + q, h), s.key_rows(d, t * numerics.kv_block + r));
    // A masked key may hold NaN.
    if (masked) term = select(counts(p.score_gradient(r, q, u, h, t)), term, value_of(0));
    p.term = Func("term" + suffix);
    p.term(d, r, q, u, h, t) = term;
}

void BackwardBuilder::term_totals() {
    Var r = s.r, q = s.q, d = s.d;
    s.query_total = Func("query_total"), s.key_total = Func("key_total"), s.value_total = Func("value_total");
    s.weight_total = Func("weight_total");
    s.query_total(d, q, s.u, s.h) = value_of(0);
    s.key_total(d, r, s.t) = value_of(0);
    if (score.pair.weight) s.weight_total(d, s.t) = value_of(0);
    s.value_total(d, r, s.t) = value_of(0);
    for (const bool full : {true, false}) {
        const BackwardTile &p = full ? s.full : s.partial;
        const std::string name = full ? "full" : "partial";
        Expr u, t;
        // Loops are fused by their names alone, so all have the same dimensions.
        auto loops = [&](int keys, int queries, int key_blocks, int query_blocks) {
            RDom all({{0, keys},
                      {0, queries},
                      {0, key_blocks},
                      {0, query_blocks},
                      {0, in.query_tiles},
                      {0, in.heads},
                      {0, in.key_tiles}},
                     name);
            u = in.first_query_tile + all[4], t = in.first_key_tile + all[6];
            take_tiles(all, u, all[5], t, full);
            if (!full) {  // blocks beyond the ends hold nothing
                all.where(u * numerics.tile_q + all[3] * queries < in.queries);
                all.where(t * numerics.kv_block + all[2] * keys < in.keys);
            }
            return all;
        };
        const RDom all = loops(numerics.term_keys, numerics.term_queries, numerics.kv_block / numerics.term_keys,
                               numerics.tile_q / numerics.term_queries);
        (full ? s.full_tiles : s.partial_tiles) = {all[4], all[5], all[6], all[0], all[1], all[2], all[3]};
        const Expr key = all[2] * numerics.term_keys + all[0], query = all[3] * numerics.term_queries + all[1], head = all[5];
        const Expr term = p.term(d, key, query, u, head, t), by_score = p.score_gradient(key, query, u, head, t);
        const TermDerivatives derivatives = term_derivatives(score.pair, term);
        const Expr by_term = by_score * slope_of(term);
        const Expr tile = reduced(all[6], all[4], in.query_tiles);
        auto of_keys = [&](const Expr &e) { return reduced(e, all[6], in.key_tiles); };
        s.query_total(d, of_keys(query), of_keys(all[4]), of_keys(all[5])) += by_term * derivatives.by_query;
        s.key_total(d, reduced(key, all[4], in.query_tiles), tile) += by_term * derivatives.by_key;
        if (score.pair.weight) s.weight_total(d, tile) += by_score * contribution_of(score.pair, term);

        const RDom tiles = loops(1, 1, 1, 1);
        s.value_total(d, r, reduced(tiles[6], tiles[4], in.query_tiles)) +=
            p.value_sum.part(d, r, r / hints.block_keys, u, tiles[5], t);
    }
    if (!score.pair.weight) return;
    s.weight_out = Func("weight_out");
    s.weight_out(d, s.t) = s.weight_total(d, s.t) * cast(type, in.scale) * by_sum();
}

}  // namespace attune
