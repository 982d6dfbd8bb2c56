// SPDX-License-Identifier: MIT
// The online softmax of a tile of rows, one serial loop over the keys: the KV blocks that update it, and its end.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

// Kept from Halide's solver: by a lower end it narrows the bounds of a stage to what it cannot show to be one KV block.
Halide::Expr unsolved(const Halide::Expr &condition);

// Of the KV blocks of which some row of a tile sees some key: all, those that every row sees whole, or the others.
enum class SeenKvBlocks { all, whole, partial };

// Of a tile: the KV blocks of which something is seen, those that every row sees whole by the intervals of the rows alone, and
// whether a step of the score may mask pairs besides.
struct TileKvBlocks {
    Span seen, whole;
    Halide::Expr masked_by_steps;
};
// Of the streamed rows, by blocks of some.
TileKvBlocks kv_blocks_of(const Span &seen_rows, const Span &whole_rows, int kv_block, const Score &);

// Leaves a loop those KV blocks; `kv_block` is a variable of `at`. As bounds of the KV block's number, unlike Builder::seen(),
// so that Halide trims the loop at its end. A tile behind the last query sees none. of_split: no KV blocks but these, if given.
void take_kv_blocks(Halide::RDom &at, const Halide::Expr &kv_block, const TileKvBlocks &, SeenKvBlocks which);
void take_kv_blocks(Halide::RDom &at, const Halide::Expr &kv_block, const Builder &, SeenKvBlocks which,
                    const Span &of_split = {});

// Keys in splits of `split_keys`, each with an online softmax of its own. `state`: (d, row * splits + p, h, b) Tuple {weighted
// values, sum, maximum} of the rows of a key head, which are its query heads' queries, one head after the other. Sets
// build.s.out to the merge of splits, as if they were KV blocks, and returns its stages. Sums over splits are filled up to a
// multiple of splits_together by such as count nothing: their loads need no condition.
constexpr int splits_together = 8;
SdpaStages merge_splits(Builder &build, const Halide::Func &state, int split_keys,
                        const std::function<Halide::Expr(Halide::Expr)> &reciprocal,
                        const std::function<Halide::Expr(Halide::Expr)> &stored);

// Some row of the tile may see key j.
Halide::Expr within_tile(const Halide::Expr &j, const Builder &);

// The weight of a sink beside the maximum that begins as its score: 1, or NaN of one that is NaN.
Halide::Expr sink_sum(const Halide::Expr &sink);

// Of the sum that a row is left with: it saw no key; and what the two say of it as natural logarithm, NaN included.
Halide::Expr is_empty_sum(const Halide::Expr &sum);
Halide::Expr online_lse(const Builder &, const Halide::Expr &max, const Halide::Expr &sum);

}  // namespace attune
