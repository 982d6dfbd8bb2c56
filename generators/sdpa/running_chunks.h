// A running softmax, which walks the keys in one serial loop for a tile of rows: the chunks that it takes up, and its end.
#pragma once
#include "generators/sdpa/builder.h"

namespace attune {

// Kept from Halide's solver: by a lower end it narrows the bounds of a stage to what it cannot show to be one chunk.
Halide::Expr unsolved(const Halide::Expr &condition);

// Of the chunks of which some row of a tile sees some key: all, those that every row sees whole, or the others.
enum class SeenChunks { all, whole, part };

struct ChunkSpan {
    Halide::Expr begin, end;
};
// Of a tile: the chunks of which something is seen, those that every row sees whole by the intervals of the rows alone, and
// whether a step of the score may mask pairs besides.
struct TileChunks {
    ChunkSpan seen, whole;
    Halide::Expr masked_by_steps;
};
// Of the rows of the other side, by chunks of some.
TileChunks chunks_of(const ChunkSpan &seen_rows, const ChunkSpan &whole_rows, int chunk, const Score &);

// Leaves a loop those chunks; `chunk` is a variable of `at`. As bounds of the chunk's number, unlike Builder::seen(), so that
// Halide trims the loop at its end. A tile behind the last query sees none.
void take_chunks(Halide::RDom &at, const Halide::Expr &chunk, const TileChunks &, SeenChunks which);
void take_chunks(Halide::RDom &at, const Halide::Expr &chunk, const Builder &, SeenChunks which);

// Some row of the tile may see key j.
Halide::Expr within_tile(const Halide::Expr &j, const Builder &);

// Of the sum that a row is left with: it saw no key; and what the two say of it as natural logarithm, NaN included.
Halide::Expr is_empty_sum(const Halide::Expr &sum);
Halide::Expr running_lse(const Builder &, const Halide::Expr &max, const Halide::Expr &sum);

}  // namespace attune
