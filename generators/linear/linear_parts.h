// SPDX-License-Identifier: MIT
// Parts that the forms of linear layers share.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Row m of x at k. A tile may reach beyond the last row: what is read there instead is never stored.
Halide::Expr element_of_row(const LinearSums &, const LinearInputs &, const Halide::Expr &k);

// The same for sums: widened once for all columns, in `x_rows`, where x is of another type.
std::function<Halide::Expr(Halide::Expr)> widened_rows(const LinearSums &, Halide::Func &x_rows, const LinearInputs &,
                                                       const LinearShape &);

// How blocks of weights are read; not f16, whose conversion takes as long for half a row as for one.
inline bool read_by_halves(const LinearInputs &in) { return in.x.type() != Halide::Float(16); }

Halide::Expr depth_blocks_of(const LinearInputs &, const LinearShape &);

// The product of the bias alone, to which the updates below add.
void start_product(LinearSums &, const LinearInputs &, const LinearShape &);

// Adds the partials of depth blocks from `first` on, in depth block order.
void add_partials(LinearSums &, const LinearInputs &, const LinearShape &, const Halide::Expr &first = 0);
// The same of each accumulator of a depth block in turn; but_the_last: not that of the last accumulator of the last depth
// block.
void add_partials(PairSums &, const LinearInputs &, const LinearShape &, const Halide::Expr &first = 0,
                  bool but_the_last = false);
// The last product of an odd depth, of which there is no pair.
void add_odd(PairSums &, const LinearInputs &, const LinearShape &);

// The product, and what the epilogue adds if that is given, in the type of x.
void add_output(LinearSums &, const LinearInputs &, const Halide::Expr &last = {});

// An element of a pair, as the sum of its accumulator reads it. A group has a pair for each accumulator.
struct PairTerm {
    Halide::Expr element, group, pair;
    Halide::Expr within = {};  // defined for the last group alone, which may lack pairs
    // Zero where there is no such pair.
    Halide::Expr operator()(const Halide::Expr &x) const;
};
using AddPair = std::function<void(const PairTerm &)>;

// The pairs of depth block c in groups.
struct PairGroups {
    int accumulators, groups;  // groups of a depth block
    Halide::Expr pairs, whole, first, last_pair;
    Halide::Var u;

    PairGroups(const PairSums &, const LinearInputs &, const LinearShape &);
    Halide::Expr pair_of(const Halide::Expr &group) const;
};
// The sums of accumulator u of depth block c: whole groups, in_lines of which are summed already, if that is given; then the
// last one. The pairs that the last group lacks are zeros, so that accumulators are summed side by side there, too; it makes a
// sum of its own, so that no other group is looked at.
void add_pairs(PairSums &, const PairGroups &, const AddPair &add, const AddPair &add_rest, const Halide::Expr &in_lines = {});

}  // namespace attune
