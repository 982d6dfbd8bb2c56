// SPDX-License-Identifier: MIT
// The pairs that a gradient by queries, keys or values is summed over on a device: lanes hold its resident rows and go over
// the streamed rows, whose scores and weights are computed again from the log-sum-exp of the forward. So nothing but
// the gradient is written, and the order of a sum is that of the streamed rows. What is shared by the forms of it:
// simt_gradient_stages.h and mma_gradient_stages.h.
#pragma once
#include "generators/attention/gpu/online_softmax.h"

namespace attune {

enum class GradientOf { query, key, value };

struct GradientInputs {
    SdpaInputs forward;               // as those of simt_stages(); sinks are in row_lse
    Halide::Func grad_out;            // (d, i, h, b), f32
    Halide::Func row_lse, row_delta;  // (i, h, b): row_stages.h
};

// Of pairs that all rows of a tile see whole, or of the others.
struct PairWeights {
    Halide::Func score;               // where the score is bent Tuple {its slope, score}
    std::vector<Halide::RVar> steps;  // of each step, an update of score
    Halide::Func weight;              // what the streamed row counts: the weight, or the gradient by the scaled product
};

// h is the head of resident rows, and g of rows of keys the query head among those that share it; else 0.
struct GradientPairs {
    using Expr = Halide::Expr;

    GradientOf of;
    const GradientInputs &in;
    const Score &score;
    std::function<Expr(Expr)> exp2;
    int kv_block;                     // streamed rows that are taken together, or not
    Expr resident_at, streamed_at;    // the rows of a pair as they are counted, beyond the last ones too
    std::pair<Expr, Expr> tile_rows;  // the first of tile t, and behind its last
    std::vector<Halide::Var> pair;    // arguments of what a pair has
    Halide::Var stepped;              // and which of them the updates of score go over
    int steps;
    Halide::Var c{"c"}, t{"t"}, g{"g"}, h{"h"}, b{"b"};
    const SdpaInputs &f = in.forward;

    bool of_query() const { return of == GradientOf::query; }
    std::string name() const { return of_query() ? "_dq" : of == GradientOf::key ? "_dk" : "_dv"; }
    Expr group() const { return f.query_heads / f.key_heads; }
    Expr query_head() const { return of_query() ? Expr(h) : h * group() + g; }
    Expr key_head() const { return of_query() ? h / group() : Expr(h); }
    Expr streamed_head() const { return of_query() ? key_head() : query_head(); }
    Expr resident_rows() const { return of_query() ? f.queries : f.keys; }
    Expr streamed_rows() const { return of_query() ? f.keys : f.queries; }

    // The rows of a pair within these; of a streamed block that is seen whole the streamed row is.
    Expr resident() const { return min(resident_at, resident_rows() - 1); }
    Expr streamed(bool inside) const {
        return inside ? Halide::unsafe_promise_clamped(streamed_at, 0, streamed_rows() - 1)
                      : min(streamed_at, streamed_rows() - 1);
    }

    // What row_lse or row_delta has of a pair's query.
    Expr of_row(const Halide::Func &total, bool masked) const { return total(query(!masked), query_head(), b); }
    // Of `product`, query and key multiplied, and `weight_gradient`, grad_out and value, of a pair. lse and delta: of_row() of
    // both.
    PairWeights weights(const Expr &product, const Expr &weight_gradient, const Expr &lse, const Expr &delta,
                        const std::string &suffix, bool masked) const;

    // Of the streamed side: rows that some row of tile t sees; and what a loop over blocks of them takes.
    Span seen_rows() const;
    void take(Halide::RDom &at, const Expr &block_at, SeenKvBlocks which) const;

private:
    Expr query_at() const { return of_query() ? resident_at : streamed_at; }
    Expr key_at() const { return of_query() ? streamed_at : resident_at; }
    Expr query(bool inside) const { return of_query() ? resident() : streamed(inside); }
    Expr key(bool inside) const { return of_query() ? streamed(inside) : resident(); }
    Index index(bool inside) const;
    bool is_bent() const;
    void apply(PairWeights &, const ScoreStep &, bool bent, const std::string &suffix, bool masked) const;
    Span whole_rows() const;
};

}  // namespace attune
