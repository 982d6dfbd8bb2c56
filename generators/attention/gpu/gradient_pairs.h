// SPDX-License-Identifier: MIT
// Pairs over which a gradient by queries, keys or values is summed on a GPU. Lanes hold the gradient's resident rows and loop
// over the streamed rows, whose scores and weights are recomputed from the log-sum-exp of the forward: only the gradient is
// written, and its order of sums is the order of the streamed rows. Shared by simt_gradient_stages.h and mma_gradient_stages.h.
#pragma once
#include "generators/attention/gpu/online_softmax.h"

namespace attune {

enum class GradientOf { query, key, value };

struct GradientInputs {
    SdpaInputs forward;               // as in simt_stages(); sinks are in row_lse
    Halide::Func grad_out;            // (d, i, h, b), f32
    Halide::Func row_lse, row_delta;  // (i, h, b): row_stages.h
};

// Pairs that all rows of a tile see whole, or other pairs.
struct PairWeights {
    Halide::Func score;               // a Tuple {slope, score} where some step does more than add
    std::vector<Halide::RVar> steps;  // one for each step, an update of score
    Halide::Func weight;              // factor of the streamed row: the weight, or the gradient by the scaled product
};

// h is the head of resident rows; g, if these are keys, the query head among the heads that share the key head, else 0.
struct GradientPairs {
    using Expr = Halide::Expr;

    GradientOf of;
    const GradientInputs &in;
    const Score &score;
    std::function<Expr(Expr)> exp2;
    int kv_block;                     // streamed rows that are computed or left out together
    Expr resident_at, streamed_at;    // the rows of a pair, not clamped to the last ones
    std::pair<Expr, Expr> tile_rows;  // first row of tile t, and end of its rows
    std::vector<Halide::Var> pair;    // arguments of a pair's Funcs
    Halide::Var stepped;              // the argument that the updates of score loop over
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

    // The rows of a pair, clamped to the last ones; the streamed row is promised to exist in a whole streamed block.
    Expr resident() const { return min(resident_at, resident_rows() - 1); }
    Expr streamed(bool inside) const {
        return inside ? Halide::unsafe_promise_clamped(streamed_at, 0, streamed_rows() - 1)
                      : min(streamed_at, streamed_rows() - 1);
    }

    // The element of row_lse or row_delta for a pair's query.
    Expr of_row(const Halide::Func &total, bool masked) const { return total(query(!masked), query_head(), b); }
    // Weights of pairs, from `product` (query times key) and `weight_gradient` (grad_out times value). lse and delta: of_row()
    // of row_lse and row_delta.
    PairWeights weights(const Expr &product, const Expr &weight_gradient, const Expr &lse, const Expr &delta,
                        const std::string &suffix, bool masked) const;

    // Streamed rows that some row of tile t sees; and the restriction of a loop over blocks of them.
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
