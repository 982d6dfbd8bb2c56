// SPDX-License-Identifier: MIT
// Gradients of attention by query, key and value, of one batch entry and one key head. No tile size, no vector width, no
// target.
//
// Weights are recomputed from the log-sum-exp of the forward (Dao et al. 2022). Pairs of a query and a key are cut in tiles; a
// tile gives partial gradients of its queries and of its keys, which are added in the order of tiles, so that a gradient
// depends on the sides of a tile and on no other choice of the schedule, nor on which gradients are wanted. Full tiles come
// first, then partial ones.
// Loop names: r key in tile, t tile of keys, q query in tile, u tile of queries, d channel, h query head, i query, j key.
#pragma once
#include "generators/attention/equations/user_attention.h"
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

struct BackwardInputs {
    Halide::Func query, grad_out;     // (d, i, h): those of the query heads that share the key head
    Halide::Func key, value;          // (d, j)
    Halide::Func row_lse, row_delta;  // (i, h): row_stages.h
    // The interval of keys of a query, as in SdpaInputs, for one batch entry.
    Halide::Func lengths;            // (i), int32
    Halide::Func shortest, longest;  // (u), int32
    Halide::Func blocks;             // (t, u, h), BlockSpan::packed() of the steps in_blocks, where there are any
    Halide::Expr band_begin, band_end, offset;
    Halide::Expr scale;  // double
    Halide::Expr queries, keys, heads, head_dim, value_dim;
    // The computed tiles, whose queries and keys alone the outputs hold; and the wanted gradients, bool: of query; of key and
    // value.
    Halide::Expr first_query_tile, query_tiles, first_key_tile, key_tiles, wants_query, wants_key;
    // Defined: the gradient by the score of each pair is an output too, if wanted: the gradient by a bias where all steps
    // only add to the score. Then all tiles of keys must be whole: vectors are not cut at the last key.
    Halide::Expr wants_bias;
    Dropout dropout;
};

// Gradient of a buffer that a step of the score reads, of one query head: added to the values of `before`.
struct CaptureInputs {
    // (j, y), in the accumulator's type; j counts keys from the first tile's; y counts queries likewise, or is 0.
    Halide::Func before;
    Halide::Expr columns, rows;  // extents of j and y
    Halide::Expr step;           // int32: the number of the step
    Halide::Expr keeps_queries;  // int32: 1, or 0 where all queries are summed in y = 0
};

// Buffers that the score reads, and the number of the buffer whose gradient is wanted.
struct CapturedInputs {
    std::vector<CapturedBuffer> buffers;
    Halide::Expr which;
};

// Numerics of the gradients: types and the order of sums, which with the form fix the bits.
struct BackwardNumerics {
    Halide::Type type, accumulator;  // of the tensors, and of the sums
    int tile_q, kv_block;            // sides of a tile
    // Sides of a block of queries and keys whose terms, where they are no products, are computed and added one after another;
    // divide the sides of a tile.
    int term_queries = 1, term_keys = 1;
    // Defined: bf16 dot products; this function rounds weights and their gradients to bf16.
    std::function<Halide::Expr(Halide::Expr)> round_pairs = {};
    // With round_pairs: products by AMX tiles, of f32 and f16 by their parts. Only for scores that are dot products, without a
    // factor of the weights, and for head sizes that are multiples of the depth of one instruction.
    bool amx_tiles = false;
    PowerInstructions powers = {};  // for the weights
};

// Hints of a schedule about how to cut the stages; the schedule's own file fills them in. Hints change no bit of a gradient.
struct BackwardHints {
    bool ragged_dims = false;  // head sizes are no multiples of the schedule's rounding of channels: clamp loads
    // Sides of a block of queries and keys: in a partial tile only blocks are computed in which some query sees some key.
    // Blocks divide the sides of a tile.
    int block_queries = 8, block_keys = 16;
    // Every tile is computed as a full one, too, for schedules that place each stage on its own. Then the reads of a full tile
    // are clamped to the last query and key as well.
    bool every_tile_in_full = false;
    // Side of the blocks in which keys and values are transposed, a divisor of kv_block; 0: element by element.
    int transposed_block = 0;
};

// Sums over the queries or the keys of a tile, as updates of one Func (d, row, block of the row, u, h, t). With AMX tiles the
// Func is (d, q, u, h, t) or (r, d, u, h, t), a copy of `product`, to which the first loop adds; the second loop adds to the
// copy where rows are non-finite.
struct TileSum {
    Halide::Func part, product;
    std::vector<Halide::RVar> block, along, element;  // of each update: blocks, elements along a block, elements of a pair
};

// The loops of an update that computes the seen blocks of a tile.
struct TileBlocks {
    Halide::RVar key, query, key_block, query_block;
};

// One tile: the product qk; the score (as Tuple {derivative by the scaled product, score} where some step of the score does
// more than add to it); weights P, dP, and the gradient by the scaled product; all (r, q, u, h, t).
struct BackwardTile {
    Halide::Func qk, score, weight, weight_gradient, score_gradient;
    Halide::Func scaled;  // the scaled product, in captured_stages
    // With dropout random words (word, r / 4, q, u, h, t); with dropout or a factor of the weights, the weights after both;
    // and, where the gradients of the factor's buffers are wanted, dP before the factor.
    Halide::Func random, dropped, kept;
    // With pairs: weights and gradients as the sums read them, (e, r, q, u, h, t) where q counts pairs, one Func per part of a
    // number; and (r, q, u, h, t), a Tuple of the parts.
    std::vector<Halide::Func> weight_pairs, gradient_pairs;
    Halide::Func gradient_rows;
    std::vector<Halide::Func> contributions;  // of captured_stages: the term of a pair for each element that it reads
    Halide::RVar channel, value_channel, channel_element, value_element;
    bool in_blocks = false;  // partial tile: update 0 of the Funcs below computes the seen blocks
    TileBlocks scaled_blocks, score_blocks, weight_blocks, dropped_blocks, kept_blocks, gradient_blocks;
    std::vector<Halide::RVar> step_queries;  // one for each step, an update of score; or, in blocks:
    std::vector<TileBlocks> step_blocks;
    TileSum query_sum, key_sum, value_sum;  // rows are q, r, r
    Halide::Func term;                      // (d, r, q, u, h, t), where it is no product: query and key then have no sums here
};

struct BackwardStages {
    // Largest magnitudes, as bits, of query, key and grad_out in the computed tiles, for each channel and for all: where they
    // are no Inf or NaN, masked pairs need not be left out of a sum.
    std::vector<Halide::Func> channel_bits;  // (d)
    Halide::Func largest_bits;
    Halide::Func query_rows, grad_rows;                      // (d, i, h) in the accumulator's type
    Halide::Func key_rows;                                   // (d, j)
    Halide::Func key_t, value_t;                             // (r, d, t)
    std::optional<BlockTranspose> key_blocks, value_blocks;  // with transposed_block: makes the two above
    // With pairs the rows are bf16, padded with a channel of zeros; key_t and value_t are (e, r, d, t), where d counts pairs;
    // and the sums read pairs of queries, (e, d, i, h), and of keys, (e, d, j).
    bool in_pairs = false;
    Halide::Func query_pairs, grad_pairs, key_pairs;
    // With AMX tiles left factors are Tuples of the parts of a number (math/bf16_parts.h), and right factors one Func per part:
    // query_rows and grad_rows, and the factors below; key_total and value_total are (r, d, t).
    bool in_amx_tiles = false;
    struct AmxFactors {
        std::vector<Halide::Func> key_t, value_t;  // (e, r, d), where d counts pairs of channels of one tile after the other
        std::vector<Halide::Func> key_pairs;       // (e, d, j), where j counts pairs
        Halide::Func query_columns, grad_columns;  // (q, d, u, h)
        // Blocks transposed for these factors: of (q, d, u, h); and, with more than one part, of (r, d, t), which is kept.
        std::optional<BlockTranspose> query_blocks, grad_blocks, key_blocks, value_blocks;
        Halide::Func key_columns, value_columns;
        // key_pairs, query_columns and grad_columns with 0 instead of NaN and Inf: for partial tiles.
        std::vector<Halide::Func> finite_key_pairs;
        Halide::Func finite_query_columns, finite_grad_columns;
    } factors;
    // With unit rows: 1 / |x| (or 0) of each query and key; and of the gradients by their unit rows the product with the unit
    // row and the sum of magnitudes.
    Halide::Func query_norm, query_dot, query_size, key_norm, key_dot, key_size;  // (i, h), (j)
    BackwardTile full, partial;
    // Update 0 adds the full tiles, update 1 the partial ones.
    Halide::Func query_total;             // (d, q, u, h)
    Halide::Func key_total, value_total;  // (d, r, t)
    struct Loops {
        Halide::RVar query_tile, head, key_tile;
        Halide::RVar key, query, key_block, query_block;  // of terms: inside the loops above
    } full_tiles, partial_tiles;
    // Where wants_bias is defined: updates 0 and 1 as in the totals, update 2 for tiles without any seen pair.
    Halide::Func bias_out;  // (j, i, h), counted from the first tiles' keys and queries
    struct PairLoops {
        Halide::RVar key, query, query_tile, head, key_tile;
    };
    std::vector<PairLoops> bias_loops;
    Halide::Func weight_total, weight_out;       // (d, t): gradient of the terms' weights, for each tile of keys
    Halide::Func query_out, key_out, value_out;  // (d, i, h), (d, j), (d, j)
    // capture_stages has these instead of totals and outputs: updates as above, with a loop over the queries of a tile.
    Halide::Func capture_total;  // (r, q, u, t)
    Halide::RVar full_query, partial_query;
    Halide::Func capture_out;  // (j, y)
    // captured_stages has these instead: updates as above, with a loop over the places in the score that read the buffer.
    Halide::RVar full_read, partial_read;
    Halide::Func captured;  // (element)

    Halide::Var r{"r"}, t{"t"}, q{"q"}, u{"u"}, d{"d"}, h{"h"}, i{"i"}, j{"j"}, e{"e"};
};

BackwardStages backward_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &);

// The gradient of a buffer that the last score function or the factor of the weights reads, at any elements, of one query head:
// added to the values already there, in double precision, pair by pair in one order. `captured` counts elements as in a dense
// array.
BackwardStages captured_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &,
                               const CapturedInputs &);

// The gradient of a buffer that a step of the score reads; all later steps must only add to the score.
BackwardStages capture_stages(const BackwardInputs &, const BackwardNumerics &, const BackwardHints &, const Score &,
                              const CaptureInputs &);

}  // namespace attune
