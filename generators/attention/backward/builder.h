// SPDX-License-Identifier: MIT
// Builder of the gradients' stages, shared by their forms (blocked_stages.cpp, bf16_dot.cpp, amx.cpp, terms.cpp, captures.cpp,
// captured.cpp).
#pragma once
#include "generators/attention/backward/blocked_stages.h"
#include "generators/attention/equations/intervals.h"
#include "generators/attention/equations/masked.h"
#include "generators/attention/equations/softmax_gradient.h"
#include "generators/math/bf16_parts.h"
#include "generators/math/bits.h"

namespace attune {

struct BackwardBuilder {
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    using RDom = Halide::RDom;
    using RVar = Halide::RVar;
    using Var = Halide::Var;

    const BackwardInputs &in;
    const BackwardNumerics &numerics;
    const BackwardHints &hints;
    const Score &score;
    bool of_capture = false;    // score_gradient is by the score after its steps
    bool keeps_scaled = false;  // the scaled product, and dP in front of a factor, are stages
    BackwardStages s = {};
    Halide::Type type = numerics.accumulator;
    SoftmaxGradient softmax{numerics.powers};

    Expr value_of(double x) const { return Halide::Internal::make_const(type, x); }
    bool in_pairs() const { return bool(numerics.round_pairs); }
    Expr product(Expr x, Expr y) const { return Halide::cast(type, x) * Halide::cast(type, y); }

    // Whether some query of tile u of head h sees some key of tile t; whether all see all.
    Expr seen(Expr u, Expr h, Expr t) const;
    Expr whole(Expr u, Expr h, Expr t) const;
    // Restricts an update's loops over tiles to seen ones, full or partial; to none unless they are wanted.
    void take_tiles(RDom &, const Expr &u, const Expr &h, const Expr &t, bool full, const Expr &wanted = {}) const;
    Index index(Expr i, Expr j, Expr head) const;

    // Called in this order.
    void rows();
    BackwardTile tile_of(const std::string &suffix, bool masked) const;
    void totals();
    void term_totals();                     // instead, for a score that is no product
    void captures(const CaptureInputs &);   // instead
    void captured(const CapturedInputs &);  // instead
    void outputs();

    // x as a reduction: loops are fused where both are reductions or neither is, and x in terms of another loop counts as one.
    static Expr reduced(const Expr &x, const RVar &other, const Expr &extent) { return x + Halide::max(other - extent, 0); }

private:
    Expr query_at(Expr q, bool inside) const;
    Expr key_at(Expr r, bool inside) const;
    Expr channel(Expr d, Expr extent) const;
    void pair_rows();
    void amx_factors();
    void magnitudes();
    Expr seen_block(Expr k, Expr m) const;  // some query of block m of a tile sees some key of block k
    // Pure, or updated in the returned loops over a tile's seen blocks, with `elsewhere` in other blocks.
    using OfPair = std::function<Halide::Tuple(Expr r, Expr q)>;
    TileBlocks fill(Func &, const std::string &name, bool in_blocks, const OfPair &, const Halide::Tuple &elsewhere) const;
    std::pair<RDom, TileBlocks> seen_blocks(const std::string &name) const;
    void round_tile(BackwardTile &, const std::string &suffix) const;
    Func channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent, RVar &along,
                         RVar &element, const PairTerm *of_pair) const;
    void scores(BackwardTile &, const std::string &suffix, bool masked) const;
    bool is_bent() const;
    void apply(BackwardTile &, const std::string &suffix, const ScoreStep &, const std::vector<Expr> &conditions, bool inside,
               bool keys_inside) const;
    void weights(BackwardTile &, const std::string &suffix, bool masked) const;
    // Weights after dropout and the factor of the score, where there are such; and dP after both.
    void drop_out(BackwardTile &, const std::string &suffix, bool masked) const;
    Expr kept_gradient(const BackwardTile &, const Expr &r, const Expr &q) const;
    Expr is_kept(const BackwardTile &, const Expr &r, const Expr &q) const;
    Expr factor_at(const Expr &r, const Expr &q, bool masked) const;
    Expr all_finite() const;
    void sums(BackwardTile &, const std::string &suffix, bool masked) const;
    void terms(BackwardTile &, const std::string &suffix, bool masked) const;
    Expr slope_of(const Expr &term) const;  // derivative of a term's contribution to the sum
    void unit_rows();
    Halide::FuncRef of_key(Func &total, const Expr &row, const Expr &tile) const;  // channel d of a row
    Expr projected(const Expr &total, const Expr &row, const Expr &dot, const Expr &size, const Expr &inverse_norm) const;
    Expr by_sum() const;  // derivative of the pair's number by the sum over channels, which must be a constant

    using Weight = std::function<Expr(Expr element, Expr along, Expr row)>;
    using Row = std::function<Expr(Expr element, Expr along)>;
    TileSum sum(const std::string &name, bool of_queries, bool masked, const Expr &wanted, const Weight &, const Row &) const;
    // AMX tiles: a number is given by its parts.
    using Parts = std::vector<Expr>;
    using Term = std::function<Parts(const Expr &along)>;
    using TermOf = std::function<Parts(const Expr &along, bool finite)>;
    int parts() const { return bf16_parts_of(numerics.type); }
    std::vector<Func> pairs(const std::string &name, const std::vector<Var> &args,
                            const std::function<Expr(Expr element)> &x) const;
    Func amx_channel_product(const std::string &name, const std::vector<Func> &keys, const Func &queries, const Expr &extent,
                             RVar &along) const;
    TileSum amx_sum(const std::string &name, bool of_queries, bool masked, const Term &weight, const TermOf &row) const;
    void amx_sums(BackwardTile &, const std::string &suffix, bool masked) const;
    // Loops of an update of totals() over tiles: keys and queries of a tile, query tiles, heads, key tiles; and the numbers of
    // the query tile and the key tile. seen_tiles() visits the tiles in which some query sees some key, full or partial ones.
    struct TileDomain {
        RDom loops;
        Expr u, t;
    };
    TileDomain tile_domain(int keys, int queries, const std::string &name) const;
    TileDomain seen_tiles(int keys, int queries, bool full, const Expr &wanted) const;
    void add_tile_sums(bool full);
    // Keys and queries of the gradient by a bias: those of the computed tiles, none where it is not wanted.
    struct BiasExtents {
        Expr keys, queries;
    };
    void set_bias(TileDomain, const BiasExtents &, bool inside, const Expr &value);
    Expr by_capture(const CaptureInputs &, const Expr &x, const Index &at) const;
    Expr score_before(std::size_t step, const Expr &scaled, const Index &at) const;
    struct CaptureReads;  // captured.cpp
    CaptureReads reads_of(const CapturedInputs &) const;
    void add_captured(const CapturedInputs &, const CaptureReads &, bool full);
};

}  // namespace attune
