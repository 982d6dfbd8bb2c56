// What is computed: products with a matrix that is one for all rows (a layer) or one for each entry of a batch. No tile, no
// vector width, no target.
//
// The depth K is cut in chunks. A chunk gives partial sums, added up in the order of k; partials are added to the bias in
// chunk order. So a result depends on its row, its column and `chunk`, and on nothing else of shape, schedule or neighbours.
// Pairs of a chunk are dealt to `strands` in turn, each of which makes such a sum, in the order of k; a chunk's are added strand by
// strand. Pairs that are neighbours in memory belong to different strands, so one row may sum them side by side.
// Loop names: n column of out, m row, k depth, u strand or, where there are none, chunk abreast, a chunk abreast of strands, c chunk of the
// depth, h head, b batch. Layout innermost first.
#pragma once
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

struct LinearInputs {
    Halide::Func x;  // (k, m, h, b)
    // Element (n, k), for entry (h, b).
    std::function<Halide::Expr(Halide::Expr n, Halide::Expr k, Halide::Expr h, Halide::Expr b)> weight;
    // weight is there for every column of the last tile, and lies as the sums read it: along n, or in bf16 in pairs along k; of
    // linear_weight_tile_stages along k, and columns and depth fill whole matrix tiles.
    bool as_it_lies = false;
    bool read_once = false;             // by few rows: weights that lie along n are not packed or widened for others
    Halide::Func bias;                  // (n); not defined: none
    Halide::Expr rows, columns, depth;  // M, N, K
    // Of linear_block_stages: how many elements of each row of the weight lie before its first cache line, so that blocks begin
    // where lines do. It changes no result.
    Halide::Expr ahead = 0;
};

struct LinearShape {
    Halide::Type type;  // of the sums; inputs of a narrower one are widened, out is as x
    int chunk;          // of the depth: fixes the order of summation
    // Weights that lie along k in memory go through square blocks of this side to lie along n; 0: element by element, as
    // suits weights that lie along n already. It changes no result. Of linear_pair_row_stages: so many neighbouring pairs of a
    // column are read together, and go through blocks of which those of all strands stay together.
    int block;
    int strands = 1;  // a divisor of the pairs of a chunk: fixes the order of summation, too
    // Of linear_pair_row_stages: the two products of a pair are added one after the other, not as a dot product.
    bool widened = false;
    // Of linear_block_stages, a divisor of block, and of linear_pair_row_stages with blocks: the sums of so many chunks, which do not
    // wait for each other, are made side by side. It changes no result.
    int abreast = 1;
    // Of linear_pair_stages, for depths that are even: the last partial is added where out is made, so that a tile may leave after it.
    bool last_apart = false;
    // Of linear_stages without strands, a divisor of chunk: so many terms are added to all columns before the next ones are. It
    // changes no result.
    int pass_depth = 1;
};

struct LinearStages {
    std::optional<BlockTranspose> transpose;  // where there are blocks
    Halide::Func panel;                       // (n, k, h, b) the weights as the sums read them; not where they lie so
    Halide::Func x_rows;                      // (k, m, h, b) x widened, where it is to be
    Halide::Func partial;                     // (n, m, c, h, b) sum of a chunk
    Halide::Func start;                       // (n) the bias
    Halide::Func product;                     // (n, m, h, b) bias + partials
    Halide::Func out;                         // (n, m, h, b)
    Halide::RVar partial_k, product_chunk;
    // With pass_depth: update 0 of partial sums whole passes, and update 1 the terms that are left.
    struct Passes {
        Halide::RVar term, pass;
    };
    std::optional<Passes> passes;
    // Of linear_pair_stages: the element of a pair. partial is (n, m, u, c, h, b), and panel (e, n, k, u, h, b) for pair u of
    // group k of as many pairs as there are strands. Of linear_stages with strands, too, but for the panel.
    bool in_pairs = false;
    bool widened = false;  // of pairs: as LinearShape says, and in linear_stages
    Halide::RVar pair, product_strand;
    Halide::RVar odd;         // of update 1 of product, which adds the last product of an odd depth
    bool last_apart = false;  // as LinearShape says: product has no update for an odd depth
    // With several strands: update 1 of partial sums the last pairs, too few for one each.
    bool in_strands = false;
    Halide::RVar rest_pair;
    // Of linear_pair_row_stages, whose partial is (u, n, m, c, h, b): pairs (u, n, t, h, b) from t on, and panel is
    // (e, u, n, t, h, b) of them. Both once more for the rest. Widened ones have no panel, and x_rows is (pair, e, m, h, b).
    Halide::Func group, rest_group, rest_panel;
    // Where there are blocks: a line is of as many pairs as a block has, in groups of one for each strand.
    struct Lines {
        BlockTranspose transpose;
        Halide::Func panel;  // (e, u, n, k, t, h, b) group k of the line from pair t on
        Halide::RVar pair, group, line;
    };
    // Whole chunks are summed by the first updates of product, in groups of `chunks` side by side, and then those that fill no group.
    // Update 0 of partial has the whole lines of what is left of the depth, and update 1 its other groups, before the rest.
    struct WholeChunks {
        int chunks;
        Halide::Func partial;  // (u, n, m, a, c, h, b) sum of chunk a of group c
        Lines lines;
        Halide::RVar product_strand, product_chunk, product_group;
    };
    std::vector<WholeChunks> whole_chunks;
    std::optional<Lines> lines;
    // Of linear_block_stages, the updates of partial: those terms of a chunk that are part of a block before its whole ones, the
    // whole ones, and the rest.
    struct BlockSum {
        Halide::RVar term, block;
    };
    std::vector<BlockSum> block_sums;
    static constexpr int whole_blocks = 1;  // the update of these
    // Of linear_block_stages with chunks abreast: groups of so many whole chunks. partial has the sums of chunks behind the last
    // group, and product one more update, the first, which adds those of groups.
    struct Abreast {
        int chunks;
        BlockTranspose transpose;
        Halide::Func x;        // (u, k, m, c, h, b) the rows of x of group c: term k of its chunk u
        Halide::Func partial;  // (u, n, m, c, h, b) sum of chunk u of group c
        std::vector<BlockSum> block_sums;
        Halide::RVar product_chunk, product_group;
    };
    std::optional<Abreast> abreast;
    // Of linear_tile_stages, padded by zeros: panel is as with pairs. Of linear_weight_tile_stages: panel is (k, n, t, h, b),
    // weights along k in matrix tile t of the depth, and partial (m, n, c, h, b).
    Halide::Func x_pairs;       // (e, m, k, h, b)
    Halide::RVar partial_tile;  // partial_k is within a tile

    Halide::Var a{"a"}, e{"e"}, n{"n"}, m{"m"}, k{"k"}, c{"c"}, t{"t"}, u{"u"}, h{"h"}, b{"b"};
};

LinearStages linear_stages(const LinearInputs &, const LinearShape &);

// The same as sums over pairs of bf16 along the depth, which must be 2 at least. Blocks are of pairs.
LinearStages linear_pair_stages(const LinearInputs &, const LinearShape &);

// The bits of linear_stages for sums that go from memory block by block, transposed where they are summed: for few rows. The depth
// must be a block at least.
LinearStages linear_block_stages(const LinearInputs &, const LinearShape &);

// The bits of linear_pair_stages for few rows, which read neighbouring pairs of a column as they lie and sum them side by
// side. The depth must have a pair for each strand at least.
LinearStages linear_pair_row_stages(const LinearInputs &, const LinearShape &);

// The same as products of whole matrix tiles of bf16, which take so much of the depth at a time, with rows of x as the left
// factor and weights in pairs as the right one. Of any depth. Blocks are of pairs.
LinearStages linear_tile_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

// The same sums, bit for bit, with weights as the left factor, read as they lie or copied, and x in pairs: for so few rows that
// weights are not worth packing. Blocks are of pairs of x, and there must be some.
LinearStages linear_weight_tile_stages(const LinearInputs &, const LinearShape &, int depth_of_tile);

}  // namespace attune
