// SPDX-License-Identifier: MIT
// A running softmax, which walks the keys in one serial loop for a tile of rows: the chunks that it takes up, and its end.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

// Kept from Halide's solver: by a lower end it narrows the bounds of a stage to what it cannot show to be one chunk.
Halide::Expr unsolved(const Halide::Expr &condition);

// Of the chunks of which some row of a tile sees some key: all, those that every row sees whole, or the others.
enum class SeenChunks { all, whole, part };

// Of a tile: the chunks of which something is seen, those that every row sees whole by the intervals of the rows alone, and
// whether a step of the score may mask pairs besides.
struct TileChunks {
    Span seen, whole;
    Halide::Expr masked_by_steps;
};
// Of the rows of the other side, by chunks of some.
TileChunks chunks_of(const Span &seen_rows, const Span &whole_rows, int chunk, const Score &);

// Leaves a loop those chunks; `chunk` is a variable of `at`. As bounds of the chunk's number, unlike Builder::seen(), so that
// Halide trims the loop at its end. A tile behind the last query sees none. of_part: no chunks but these, if given.
void take_chunks(Halide::RDom &at, const Halide::Expr &chunk, const TileChunks &, SeenChunks which);
void take_chunks(Halide::RDom &at, const Halide::Expr &chunk, const Builder &, SeenChunks which, const Span &of_part = {});

// Keys in parts of `part`, each with a running softmax of its own. `state`: (d, row * parts + p, h, b) Tuple {weighted
// values, sum, maximum} of the rows of a key head, which are its query heads' queries, one head after the other. Sets
// build.s.out to the merge of parts, as if they were chunks, and returns its stages. Sums over parts are filled up to a
// multiple of parts_together by such as count nothing: their loads need no condition.
constexpr int parts_together = 8;
SdpaStages merge_parts(Builder &build, const Halide::Func &state, int part,
                       const std::function<Halide::Expr(Halide::Expr)> &reciprocal,
                       const std::function<Halide::Expr(Halide::Expr)> &stored);

// Some row of the tile may see key j.
Halide::Expr within_tile(const Halide::Expr &j, const Builder &);

// The weight of a sink beside the maximum that begins as its score: 1, or NaN of one that is NaN.
Halide::Expr sink_sum(const Halide::Expr &sink);

// Of the sum that a row is left with: it saw no key; and what the two say of it as natural logarithm, NaN included.
Halide::Expr is_empty_sum(const Halide::Expr &sum);
Halide::Expr running_lse(const Builder &, const Halide::Expr &max, const Halide::Expr &sum);

}  // namespace attune
