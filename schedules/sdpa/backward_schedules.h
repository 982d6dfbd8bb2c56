// SPDX-License-Identifier: MIT
// How the gradients of attention are computed.
#pragma once
#include "generators/attention/backward/blocked_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline. Its tiles are the defaults of the generator.
void schedule_backward_root(BackwardStages &, const std::vector<Halide::Func> &outputs);

struct BackwardParameters {
    int tile_q, kv_block;                    // queries and keys of a tile (the stages')
    int query_tile;                          // queries of a register tile of scores; divides tile_q
    int key_vectors;                         // vectors of keys of it; divide kv_block
    int row_tile;                            // rows of a register tile of gradients; divides tile_q and kv_block
    int channel_vectors;                     // vectors of channels of it
    int term_queries = 1, term_keys = 1;     // of a block of terms that are no products (the stages'); divide the sides
    int block_queries = 8, block_keys = 16;  // of a block of a tile that a mask touches (the stages'); row_tile divides both
};
// Hints of the schedules: of root; of tiles; and of the forms with pairs of bf16 and with AMX tiles. head_dim 0: any sizes.
BackwardHints hints_for_backward_root(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);
BackwardHints hints_for_backward(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);
BackwardHints hints_for_backward_bf16_dot(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);

// One task: the runtime calls for ranges of tiles. Scores have keys as lanes; gradients have channels as lanes, and read scores
// as scalars, so that nothing is transposed but keys and values, once for each tile of keys.
void schedule_backward(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                       const Halide::Target &);
// The same with products of AMX tiles: of tile_q, kv_block, query_tile and key_vectors. What a tile computes between its
// products stays in L1; head_dim is known.
void schedule_backward_amx(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                           const Halide::Target &, int head_dim);
// The same where terms are no products. Gradients of query, key and weights add up block by block in L1, of each vector of
// channels in turn: a term is computed once for all of them, in registers.
void schedule_backward_terms(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                             const Halide::Target &);
// The same of capture_stages, which have no gradients of channels.
void schedule_captures(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);

// The same of captured_stages. What pairs add is computed for a tile, lanes are keys; then it is added to its elements pair by
// pair, which may be anywhere.
void schedule_captured(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);

// Parts of those. The scores of a tile, wanted in the loop `tile`; a sum over a tile, a register tile wanted in the loop
// `rows`.
void require_parameters(const BackwardParameters &, int lanes);
void schedule_backward_scores(const BackwardStages &, const BackwardTile &, const Halide::LoopLevel &tile,
                              const BackwardParameters &, int lanes);
void schedule_tile_sum(const BackwardStages &, const TileSum &, const Halide::LoopLevel &rows, const BackwardParameters &,
                       int lanes);
void schedule_rounding(const BackwardStages &, const BackwardTile &, const Halide::LoopLevel &tile, const BackwardParameters &,
                       int lanes);
// Keys and values, transposed: in full before all else.
void schedule_key_columns(BackwardStages &, const BackwardParameters &, int lanes);
void schedule_magnitudes(BackwardStages &, int lanes);
void schedule_grad_bias(BackwardStages &, int lanes);  // after the totals, whose loops it shares

}  // namespace attune
