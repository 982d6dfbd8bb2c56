// How the stages of the gradients of attention are made, shared by the forms of them (backward_stages.cpp, backward_pairs.cpp,
// backward_terms.cpp, backward_captures.cpp).
#pragma once
#include "generators/math/bits.h"
#include "generators/sdpa/backward_stages.h"
#include "generators/sdpa/builder.h"

namespace attune {

struct BackwardBuilder {
    using Expr = Halide::Expr;
    using Func = Halide::Func;
    using RDom = Halide::RDom;
    using RVar = Halide::RVar;
    using Var = Halide::Var;

    const BackwardInputs &in;
    const BackwardShape &shape;
    const Score &score;
    bool of_capture = false;    // score_gradient is by the score after its steps
    bool keeps_scaled = false;  // the scaled product, and dP in front of a factor, are stages
    BackwardStages s = {};
    Halide::Type type = shape.accumulator;

    Expr value_of(double x) const { return Halide::Internal::make_const(type, x); }
    // Of a tile that a mask touches: what is masked there is -0, which adds nothing and is known from a weight.
    Expr counts(Expr x) const;
    bool in_pairs() const { return bool(shape.round_pairs); }
    Expr product(Expr x, Expr y) const { return Halide::cast(type, x) * Halide::cast(type, y); }

    // Some query of tile u of head h sees some key of tile t; all see all.
    Expr seen(Expr u, Expr h, Expr t) const;
    Expr whole(Expr u, Expr h, Expr t) const;
    Index index(Expr q, bool inside, bool keys_inside) const;

    // In this order.
    void rows();
    BackwardTile tile_of(const std::string &suffix, bool masked) const;
    void totals();
    void term_totals();                     // instead, of a score that is not a product
    void captures(const CaptureInputs &);   // instead
    void captured(const CapturedInputs &);  // instead
    void outputs();

    // Loops can be fused where both are reductions or neither is: x in terms of another loop is taken for a reduction.
    static Expr reduced(const Expr &x, const RVar &other, const Expr &extent) { return x + Halide::max(other - extent, 0); }

private:
    Expr query_at(Expr q, bool inside) const;
    Expr key_at(Expr r, bool inside) const;
    Expr channel(Expr d, Expr extent) const;
    void pair_rows();
    void round_tile(BackwardTile &, const std::string &suffix) const;
    Func channel_product(const std::string &name, const Func &keys, const Func &queries, const Expr &extent, RVar &along,
                         RVar &element, const PairTerm *of_pair) const;
    void scores(BackwardTile &, const std::string &suffix, bool masked) const;
    bool is_bent() const;
    void apply(BackwardTile &, const std::string &suffix, const ScoreStep &, const std::vector<Expr> &conditions, bool inside,
               bool keys_inside) const;
    void weights(BackwardTile &, const std::string &suffix, bool masked) const;
    // Of the weights what dropout and the factor of the score leave, where there are such; returns dP behind them.
    Expr drop_out(BackwardTile &, const std::string &suffix, bool masked, Expr gradient) const;
    void sums(BackwardTile &, const std::string &suffix, bool masked) const;
    void terms(BackwardTile &, const std::string &suffix, bool masked) const;
    Expr slope_of(const Expr &term) const;  // the derivative of what a term adds to the sum
    void unit_rows();
    Expr projected(const Expr &total, const Expr &row, const Expr &dot, const Expr &size, const Expr &inverse_norm) const;
    Expr by_sum() const;  // the derivative of the number by the sum over channels, which must be a constant

    using Factor = std::function<Expr(Expr element, Expr along)>;
    TileSum sum(const std::string &name, const std::vector<Var> &args, int extent, bool masked, const Expr &wanted,
                const Factor &weight, const Factor &row) const;
    Expr by_capture(const CaptureInputs &, const Expr &x, const Index &at) const;
    Index index(Expr i, Expr j, Expr h) const;
    Expr score_before(std::size_t step, const Expr &scaled, const Index &at) const;
};

}  // namespace attune
