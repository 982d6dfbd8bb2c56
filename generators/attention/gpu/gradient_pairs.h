// SPDX-License-Identifier: MIT
// The pairs that a gradient by queries, keys or values is summed over on a device: lanes hold rows of it, their own, and walk
// the rows of the other side, whose scores and weights are computed again from the log-sum-exp of the forward. So nothing but
// the gradient is written, and the order of a sum is that of the rows that are walked. What is shared by the forms of it:
// simt_gradient_stages.h and mma_gradient_stages.h.
#pragma once
#include "generators/attention/gpu/online_softmax.h"

namespace attune {

enum class GradientOf { query, key, value };

struct GradientInputs {
    SdpaInputs forward;               // as those of lane_stages(); sinks are in row_lse
    Halide::Func grad_out;            // (d, i, h, b), f32
    Halide::Func row_lse, row_delta;  // (i, h, b): row_stages.h
};

// Of pairs that all rows of a tile see whole, or of the others.
struct PairWeights {
    Halide::Func logit;               // where the score is bent Tuple {its slope, logit}
    std::vector<Halide::RVar> steps;  // of each step, an update of logit
    Halide::Func weight;              // what the other row counts: the weight, or the gradient by the scaled product
};

// h is the head of own rows, and g of rows of keys the query head among those that share it; else 0.
struct GradientPairs {
    using Expr = Halide::Expr;

    GradientOf of;
    const GradientInputs &in;
    const Score &score;
    std::function<Expr(Expr)> exp2;
    int chunk;                        // rows of the other side that are met together, or not
    Expr own_at, met_at;              // the rows of a pair as they are counted, beyond the last ones too
    std::pair<Expr, Expr> tile_rows;  // the first of tile t, and behind its last
    std::vector<Halide::Var> pair;    // arguments of what a pair has
    Halide::Var stepped;              // and which of them the updates of logit walk
    int steps;
    Halide::Var c{"c"}, t{"t"}, g{"g"}, h{"h"}, b{"b"};
    const SdpaInputs &f = in.forward;

    bool of_query() const { return of == GradientOf::query; }
    std::string name() const { return of_query() ? "_dq" : of == GradientOf::key ? "_dk" : "_dv"; }
    Expr group() const { return f.query_heads / f.key_heads; }
    Expr query_head() const { return of_query() ? Expr(h) : h * group() + g; }
    Expr key_head() const { return of_query() ? h / group() : Expr(h); }
    Expr met_head() const { return of_query() ? key_head() : query_head(); }
    Expr own_rows() const { return of_query() ? f.queries : f.keys; }
    Expr met_rows() const { return of_query() ? f.keys : f.queries; }

    // The rows of a pair within these; of a chunk that is seen whole what is met is.
    Expr own() const { return min(own_at, own_rows() - 1); }
    Expr met(bool inside) const {
        return inside ? Halide::unsafe_promise_clamped(met_at, 0, met_rows() - 1) : min(met_at, met_rows() - 1);
    }

    // What row_lse or row_delta has of a pair's query.
    Expr of_row(const Halide::Func &total, bool masked) const { return total(query(!masked), query_head(), b); }
    // Of `product`, query and key multiplied, and `product_gradient`, grad_out and value, of a pair. lse and delta: of_row() of
    // both.
    PairWeights weights(const Expr &product, const Expr &product_gradient, const Expr &lse, const Expr &delta,
                        const std::string &suffix, bool masked) const;

    // Of the other side: rows that some row of tile t sees; and what a loop over chunks takes.
    Span seen_rows() const;
    void take(Halide::RDom &at, const Expr &chunk_at, SeenChunks which) const;

private:
    Expr query_at() const { return of_query() ? own_at : met_at; }
    Expr key_at() const { return of_query() ? met_at : own_at; }
    Expr query(bool inside) const { return of_query() ? own() : met(inside); }
    Expr key(bool inside) const { return of_query() ? met(inside) : own(); }
    Index index(bool inside) const;
    bool is_bent() const;
    void apply(PairWeights &, const ScoreStep &, bool bent, const std::string &suffix, bool masked) const;
    Span whole_rows() const;
};

}  // namespace attune
