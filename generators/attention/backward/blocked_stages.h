// SPDX-License-Identifier: MIT
// What is computed: the gradients of attention by query, key and value, of one batch entry and one key head. No tile size, no
// vector width, no target.
//
// Weights are recomputed from the log-sum-exp of the forward. Pairs of a query and a key are cut in tiles; a tile gives parts
// of the gradients of its queries and of its keys, and parts are added in the order of tiles, so that a gradient depends on
// the sides of a tile and on nothing else of the schedule, nor on which of the gradients are wanted. Full tiles come first,
// then those that a mask touches.
// Loop names: r key in tile, t tile of keys, q query in tile, u tile of queries, d channel, h query head, i query, j key.
#pragma once
#include "generators/attention/equations/user_attention.h"
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

struct BackwardInputs {
    Halide::Func query, grad_out;     // (d, i, h): those of the query heads that share the key head
    Halide::Func key, value;          // (d, j)
    Halide::Func row_lse, row_delta;  // (i, h): row_stages.h
    // The interval of keys of a query, as in SdpaInputs, of one batch entry.
    Halide::Func lengths;            // (i), int32
    Halide::Func shortest, longest;  // (u), int32
    Halide::Func blocks;             // (t, u, h), BlockSpan::packed() of the steps in_blocks, where there are any
    Halide::Expr band_begin, band_end, offset;
    Halide::Expr scale;  // double
    Halide::Expr queries, keys, heads, head_dim, value_dim;
    // The tiles that are computed: outputs hold their queries and keys alone. And which gradients, bool: of query; of key and
    // value.
    Halide::Expr first_query_tile, query_tiles, first_key_tile, key_tiles, wants_query, wants_key;
    // Defined: the gradient by the score of each pair is an output, too, if it is wanted. It is that by a bias where all steps
    // only add to the score. Then all tiles of keys must be whole: vectors are not cut at the last key.
    Halide::Expr wants_bias;
    Dropout dropout;
};

// The gradient of a buffer that a step of the score reads, of one query head: added to what is there already.
struct CaptureInputs {
    // (j, y), in the accumulator's type; j counts keys from those of the first tile, y queries likewise, or is 0.
    Halide::Func before;
    Halide::Expr columns, rows;  // extents of j and y
    Halide::Expr step;           // int32: the number of the step
    Halide::Expr keeps_queries;  // int32: 1, or 0 where all queries are summed in y = 0
};

// Buffers that the score reads, and the number of the one whose gradient is wanted.
struct CapturedInputs {
    std::vector<CapturedBuffer> buffers;
    Halide::Expr which;
};

// What fixes the bits of a gradient, beside its form: types, and the order of sums.
struct BackwardNumerics {
    Halide::Type type, accumulator;  // of the tensors, and of the sums
    int tile_q, kv_block;            // sides of a tile
    // Queries and keys of a block, of which terms that are not products are computed and added one after another; divide the
    // sides.
    int term_queries = 1, term_keys = 1;
    // Defined: products are of pairs of bf16, to which this rounds weights and their gradients.
    std::function<Halide::Expr(Halide::Expr)> round_pairs = {};
    // Then, too: products are of whole AMX tiles, of f32 and f16 by their parts. Of dot products alone, without a factor
    // of the weights, and of head sizes that are multiples of what one instruction reduces.
    bool amx_tiles = false;
    PowerInstructions powers = {};  // of weights
};

// How the stages are cut for a schedule, whose own file fills this in. It changes no bit of a gradient.
struct BackwardHints {
    bool ragged_dims = false;  // head sizes are not multiples of what the schedule may round channels up to: clamp loads
    // Of a tile that a mask touches only blocks of so many queries and keys are computed of which some query sees some key;
    // divide the sides.
    int block_queries = 8, block_keys = 16;
    // Every tile is computed as a full one, too, whether it is or not: for schedules that place each stage on its own. Then
    // what a full tile reads is clamped to the last query and key as well.
    bool every_tile_in_full = false;
    // Keys and values are transposed in blocks of this side, a divisor of kv_block; 0: element by element.
    int transposed_block = 0;
};

// Sums over the queries or the keys of a tile, as updates of one Func (d, row, block of the row, u, h, t). With AMX tiles
// it is (d, q, u, h, t) or (r, d, u, h, t), and a copy of `product`, to which the first of the loops adds; the second adds to
// it, where rows are not finite.
struct TileSum {
    Halide::Func part, product;
    std::vector<Halide::RVar> block, along, element;  // of each update: blocks, what lies along one, elements of a pair
};

// The loops of an update that computes the seen blocks of a tile.
struct TileBlocks {
    Halide::RVar key, query, key_block, query_block;
};

// Of one tile: the product qk, the score (behind its derivative by the scaled product, where some step of the score does more
// than add to it), weights P, dP, and the gradient by the scaled product; all (r, q, u, h, t).
struct BackwardTile {
    Halide::Func qk, score, weight, weight_gradient, score_gradient;
    Halide::Func scaled;  // the scaled product, in captured_stages
    // With dropout random words (word, r / 4, q, u, h, t); with it or a factor of the weights what they leave of them; and
    // with a factor dP in front of it, where its buffers are asked for.
    Halide::Func random, dropped, kept;
    // With pairs: weights and gradients as the sums read them, (e, r, q, u, h, t) where q counts pairs, a Func for each part
    // of a number, and (r, q, u, h, t), a Tuple of them.
    std::vector<Halide::Func> weight_pairs, gradient_pairs;
    Halide::Func gradient_rows;
    std::vector<Halide::Func> contributions;  // of captured_stages: what a pair adds to each element that it reads
    Halide::RVar channel, value_channel, channel_element, value_element;
    bool in_blocks = false;  // of a tile that a mask touches: update 0 of those below computes what is seen
    TileBlocks scaled_blocks, score_blocks, weight_blocks, dropped_blocks, kept_blocks, gradient_blocks;
    std::vector<Halide::RVar> step_queries;  // of each step, an update of score; or, in blocks:
    std::vector<TileBlocks> step_blocks;
    TileSum query_sum, key_sum, value_sum;  // rows are q, r, r
    Halide::Func term;  // (d, r, q, u, h, t), where it is not a product: then query and key have no sums here
};

struct BackwardStages {
    // Whether query, key and grad_out of the tiles that are computed hold no Inf or NaN: then what is masked need not be left
    // out of a sum. And their largest magnitudes, as bits, of each channel and of all.
    std::vector<Halide::Func> channel_bits;  // (d)
    Halide::Func largest_bits;
    Halide::Func query_rows, grad_rows;                      // (d, i, h) in the accumulator's type
    Halide::Func key_rows;                                   // (d, j)
    Halide::Func key_t, value_t;                             // (r, d, t)
    std::optional<BlockTranspose> key_blocks, value_blocks;  // of those, with transposed_block
    // With pairs the rows are bf16, padded by a zero channel; key_t and value_t are (e, r, d, t), where d counts pairs; and the
    // sums read pairs of queries, (e, d, i, h), and of keys, (e, d, j).
    bool in_pairs = false;
    Halide::Func query_pairs, grad_pairs, key_pairs;
    // With AMX tiles left factors are Tuples of the parts of a number (math/bf16_parts.h), and right ones a Func for each
    // part: query_rows and grad_rows, and these; key_total and value_total are (r, d, t).
    bool in_amx_tiles = false;
    struct AmxFactors {
        std::vector<Halide::Func> key_t, value_t;  // (e, r, d), where d counts pairs of channels of one tile after the other
        std::vector<Halide::Func> key_pairs;       // (e, d, j), where j counts pairs
        Halide::Func query_columns, grad_columns;  // (q, d, u, h)
        // What is transposed for those, in blocks: of (q, d, u, h); and, of more than one part, of (r, d, t), which is kept.
        std::optional<BlockTranspose> query_blocks, grad_blocks, key_blocks, value_blocks;
        Halide::Func key_columns, value_columns;
        // The last three with 0 instead of NaN and Inf: of tiles that a mask touches.
        std::vector<Halide::Func> finite_key_pairs;
        Halide::Func finite_query_columns, finite_grad_columns;
    } factors;
    // With unit rows: 1 / |x| (or 0) of each query and key, and of their gradients by unit rows the product with the unit row
    // and the sum of magnitudes.
    Halide::Func query_norm, query_dot, query_size, key_norm, key_dot, key_size;  // (i, h), (j)
    BackwardTile full, partial;
    // Update 0 adds the full tiles, 1 the others.
    Halide::Func query_total;             // (d, q, u, h)
    Halide::Func key_total, value_total;  // (d, r, t)
    struct Loops {
        Halide::RVar query_tile, head, key_tile;
        Halide::RVar key, query, key_block, query_block;  // of terms: inside these
    } full_tiles, partial_tiles;
    // Where wants_bias is defined: updates 0 and 1 as of the totals, 2 of the tiles that nothing sees.
    Halide::Func bias_out;  // (j, i, h), counted from those of the first tiles
    struct PairLoops {
        Halide::RVar key, query, query_tile, head, key_tile;
    };
    std::vector<PairLoops> bias_loops;
    Halide::Func weight_total, weight_out;       // (d, t): where terms have weights, their gradient, of each tile of keys
    Halide::Func query_out, key_out, value_out;  // (d, i, h), (d, j), (d, j)
    // Of capture_stages, instead of totals and outputs: updates as above, and a loop over the queries of a tile.
    Halide::Func capture_total;  // (r, q, u, t)
    Halide::RVar full_query, partial_query;
    Halide::Func capture_out;  // (j, y)
    // Of captured_stages, instead: updates as above, and a loop over the places in the score that read the buffer.
    Halide::RVar full_read, partial_read;
    Halide::Func captured;  // (element)

    Halide::Var r{"r"}, t{"t"}, q{"q"}, u{"u"}, d{"d"}, h{"h"}, i{"i"}, j{"j"}, e{"e"};
};

BackwardStages backward_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &);

// The gradient of a buffer that the last score function or the factor of the weights read, at whatever elements: added to what
// is there already, in double precision, pair by pair in one order. Of one query head. `captured` counts elements as they
// lie in a dense array.
BackwardStages captured_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &,
                               const CapturedInputs &);

// The steps after one whose buffer may be asked for must only add to the score.
BackwardStages capture_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &,
                              const CaptureInputs &);

}  // namespace attune
