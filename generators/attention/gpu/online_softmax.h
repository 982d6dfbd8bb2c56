// SPDX-License-Identifier: MIT
// Online softmax (Milakov and Gimelshein 2018) of a tile of rows in one serial loop over the keys: its KV blocks, its end.
#pragma once
#include "generators/attention/forward/builder.h"

namespace attune {

// Hides a condition from Halide's solver, which would narrow a stage's bounds by it to an extent not provably one KV block.
Halide::Expr unsolved(const Halide::Expr &condition);

// Calls of Funcs replaced by their definitions: Halide evaluates a condition without calls once, before the loops within its
// own, and not for each of their iterations.
Halide::Expr without_calls(const Halide::Expr &condition);

// KV blocks of which some row of a tile sees some key: all, the blocks that every row sees whole, or the others.
enum class SeenKvBlocks { all, whole, partial };

// KV blocks of a tile: the seen ones, the ones that every row sees whole by the intervals of the rows alone, and whether a step
// of the score may mask pairs besides.
struct TileKvBlocks {
    Span seen, whole;
    Halide::Expr masked_by_steps;
};
// The blocks, of `kv_block` streamed rows each, in spans of rows.
TileKvBlocks kv_blocks_of(const Span &seen_rows, const Span &whole_rows, int kv_block, const Score &);

// Restricts a loop to those KV blocks; `kv_block` is a variable of `at`. Unlike Builder::seen(), by bounds of the block's
// number, so that Halide trims the loop's end. A tile behind the last query sees none. of_split: if given, only these.
void take_kv_blocks(Halide::RDom &at, const Halide::Expr &kv_block, const TileKvBlocks &, SeenKvBlocks which);
void take_kv_blocks(Halide::RDom &at, const Halide::Expr &kv_block, const Builder &, SeenKvBlocks which,
                    const Span &of_split = {});

// Split-KV: keys in splits of `split_keys`, each with an online softmax of its own. `state`: (d, row * splits + p, h, b) Tuple
// {weighted values, sum, maximum} of the rows of a key head, which are its query heads' queries, head by head. Sets build.s.out
// to the merge of splits, as if they were KV blocks, and returns its stages. The number of splits is padded to a multiple of
// splits_together with neutral elements, so that the merge loads unconditionally.
constexpr int splits_together = 8;
SdpaStages merge_splits(Builder &build, const Halide::Func &state, int split_keys,
                        const std::function<Halide::Expr(Halide::Expr)> &reciprocal,
                        const std::function<Halide::Expr(Halide::Expr)> &stored);

// Whether some row of the tile may see key j.
Halide::Expr within_tile(const Halide::Expr &j, const Builder &);

// Factor of the score (Score::probability) for row r and the k-th key of a KV block; undefined where there is none. It changes
// the weight of a value and not the sum of the weights.
Halide::Expr weight_factor(const Builder &, const Halide::Expr &r, const Halide::Expr &k, const Halide::Expr &kv_block,
                           bool inside);

// Initial sum of a row whose initial maximum is the score of its sink: 1, or NaN for a NaN.
Halide::Expr sink_sum(const Halide::Expr &sink);

// Whether the final sum of a row says that it saw no key; and the row's lse in natural units, NaN included.
Halide::Expr is_empty_sum(const Halide::Expr &sum);
Halide::Expr online_lse(const Builder &, const Halide::Expr &max, const Halide::Expr &sum);

}  // namespace attune
