// SPDX-License-Identifier: MIT
// Schedules of the gradients of attention.
#pragma once
#include "generators/attention/backward/blocked_stages.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline. Its tiles are the defaults of the generator.
void schedule_backward_root(BackwardStages &, const std::vector<Halide::Func> &outputs);

struct BackwardParameters {
    int tile_q, kv_block;                    // queries and keys of a tile (the stages')
    int query_tile;                          // queries of a register tile of scores; divides tile_q
    int key_vectors;                         // vectors of keys of that tile; divide kv_block
    int row_tile;                            // rows of a register tile of gradients; divides tile_q and kv_block
    int channel_vectors;                     // vectors of channels of that tile
    int term_queries = 1, term_keys = 1;     // of a block of terms that are no products (the stages'); divide the sides
    int block_queries = 8, block_keys = 16;  // of a block of a partial tile (the stages'); row_tile divides both
};
// Hints of the schedules: of root; of tiles; and of the forms with bf16 dot products and AMX. head_dim 0: any sizes.
BackwardHints hints_for_backward_root(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);
BackwardHints hints_for_backward(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);
BackwardHints hints_for_backward_bf16_dot(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);

// One task: the runtime calls the kernel for ranges of tiles. Scores have keys as lanes; gradients have channels as lanes, and
// read scores as scalars, so that only keys and values are transposed, once for each tile of keys.
void schedule_backward(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                       const Halide::Target &);
// schedule_backward() with products by AMX tiles: of tile_q, kv_block, query_tile and key_vectors. Results of a tile between
// its products stay in L1; head_dim is known.
void schedule_backward_amx(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                           const Halide::Target &, int head_dim);
// schedule_backward() for terms that are no products. Gradients of query, key and weights are summed block by block in L1, for
// each vector of channels in turn: a term is computed once for all three, in registers.
void schedule_backward_terms(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                             const Halide::Target &);
// schedule_backward() for capture_stages, which have no gradients of channels.
void schedule_captures(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);

// schedule_backward() for captured_stages. The terms of pairs are computed for a tile, with keys as lanes, and then added to
// their elements, which may be anywhere, pair by pair.
void schedule_captured(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);

// Parts of the schedules. The scores of a tile, in the loop `tile`; a sum over a tile, a register tile at a time in the loop
// `rows`.
void require_parameters(const BackwardParameters &, int lanes);
void schedule_backward_scores(const BackwardStages &, const BackwardTile &, const Halide::LoopLevel &tile,
                              const BackwardParameters &, int lanes);
void schedule_tile_sum(const BackwardStages &, const TileSum &, const Halide::LoopLevel &rows, const BackwardParameters &,
                       int lanes);
void schedule_rounding(const BackwardStages &, const BackwardTile &, const Halide::LoopLevel &tile, const BackwardParameters &,
                       int lanes);
// Rows as the sums read them, where they are not read in place, and the sums of all tiles.
void schedule_rows_and_totals(BackwardStages &, const BackwardParameters &, int lanes);
// Transposed keys and values: in full before all others.
void schedule_key_columns(BackwardStages &, const BackwardParameters &, int lanes);
void schedule_magnitudes(BackwardStages &, int lanes);
void schedule_grad_bias(BackwardStages &, int lanes);  // after the totals, whose loops it shares

}  // namespace attune
