// SPDX-License-Identifier: MIT
// Stages that the forms of linear layers share.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Element k of row m of x. A tile may reach beyond the last row: the element read there instead is never stored.
Halide::Expr element_of_row(const LinearSums &, const LinearInputs &, const Halide::Expr &k);

// element_of_row() in the type of sums: widened once for all columns, in `x_rows`, where x has another type.
std::function<Halide::Expr(Halide::Expr)> widened_rows(const LinearSums &, Halide::Func &x_rows, const LinearInputs &,
                                                       const LinearShape &);

// Whether blocks of weights are read by halves of rows; not for f16, whose conversion of half a row takes as long as of a row.
inline bool read_by_halves(const LinearInputs &in) { return in.x.type() != Halide::Float(16); }

Halide::Expr depth_blocks_of(const LinearInputs &, const LinearShape &);

// The product's initial value, the bias, to which the updates below add.
void start_product(LinearSums &, const LinearInputs &, const LinearShape &);

// Adds the partials of depth blocks from `first` on, in order.
void add_partials(LinearSums &, const LinearInputs &, const LinearShape &, const Halide::Expr &first = 0);
// Adds the partials of each accumulator of a depth block in turn; but_the_last: except the last accumulator of the last depth
// block.
void add_partials(PairSums &, const LinearInputs &, const LinearShape &, const Halide::Expr &first = 0,
                  bool but_the_last = false);
// Adds the last product of an odd depth, which has no pair.
void add_odd(PairSums &, const LinearInputs &, const LinearShape &);

// The product, plus the epilogue's last term if given, in the type of x.
void add_output(LinearSums &, const LinearInputs &, const Halide::Expr &last = {});

// An element of a pair, as an accumulator reads it. A group has a pair for each accumulator.
struct PairTerm {
    Halide::Expr element, group, pair;
    Halide::Expr within = {};  // defined for the last group alone, which may be short
    // x, or zero where there is no such pair.
    Halide::Expr operator()(const Halide::Expr &x) const;
};
using AddPair = std::function<void(const PairTerm &)>;

// The pairs of depth block c in groups of one pair per accumulator.
struct PairGroups {
    int accumulators, groups;  // groups of a depth block
    Halide::Expr pairs, whole, first, last_pair;
    Halide::Var u;

    PairGroups(const PairSums &, const LinearInputs &, const LinearShape &);
    Halide::Expr pair_of(const Halide::Expr &group) const;
};
// Sums of accumulator u of depth block c: whole groups, without the first in_lines if that is given, as these are summed
// already; then the last group. The last group is padded with pairs of zeros, so that its accumulators are summed side by side,
// too, and has an update of its own, so that other groups are not tested.
void add_pairs(PairSums &, const PairGroups &, const AddPair &add, const AddPair &add_rest, const Halide::Expr &in_lines = {});

}  // namespace attune
