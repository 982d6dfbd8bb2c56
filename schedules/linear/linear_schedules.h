// SPDX-License-Identifier: MIT
// Schedules of products with a matrix, one free function for each form of the sums. No equation, no Func of their own except
// wrappers.
#pragma once
#include "generators/linear/linear_forms.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(PanelStages &, Halide::Func out);

struct PanelParameters {
    int depth_block;   // depth of a partial sum (the stages' depth block), a multiple of block
    int task_rows;     // rows for which a task packs its weights once, a multiple of tile_rows; a call may take fewer
                       // (tile_rows for Bf16DotLineStages)
    int tile_rows;     // rows of a register tile
    int tile_columns;  // columns of that tile and of a task; a multiple of the vector width
    int block;         // side of the blocks in which weights are transposed (the stages' block): the vector width, or 0
    // Depth blocks that a register tile takes before the next tile, so that its sums stay in L1 between them; their weights
    // should stay in L2. 0: all, and a tile is stored to out before the next one begins.
    int tile_depth_blocks;
    int accumulators = 1;  // of pairs (the stages' accumulators), a divisor of the vector width
    // Vectors interleaved to hide the latency of a sum, for interleaved depth blocks or for pairs of few rows. 0: 1 for the
    // former, for the latter the vectors of 8 columns.
    int interleaved_vectors = 0;
    // Tiles of rows of a task, by the call's argument; not defined: those of task_rows.
    Halide::Expr tiles_of_call = {};
    Halide::Expr one_depth_block = {};  // whether the depth is one depth block; not defined: not tested
    Halide::Expr tiles_of_task() const {
        const Halide::Expr most = task_rows / tile_rows;
        return tiles_of_call.defined() ? clamp(tiles_of_call, 1, most) : most;
    }
};
// One task is one tile of columns for some rows. Lanes are columns. Only depth_block and accumulators affect the bits.

// Weights are packed for a task, a depth block at a time, so that the sums read them from L2 line by line. tile_depth_blocks is
// any for PanelStages, 0 for Bf16DotEpilogueStages and 1 for the others.
void schedule_form(PanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(WidenedPanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotPanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotEpilogueStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Few rows: weights are used in registers, in blocks that are transposed there, or in pairs, where lanes are the accumulators
// of some columns.
void schedule_form(RowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(InterleavedRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(WidenedRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotLineStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Few rows, of which a task takes some columns: their sums stay in L1, and update_depth rows of weights (the stages') are added
// to all sums before the next ones, so that reads are runs of a whole tile of columns.
void schedule_form(RankKStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// AMX tiles of bf16 pairs: weights are laid for all rows of a task, a depth block at a time or, where tile_depth_blocks is 0,
// of the whole depth; rows of x for a tile of rows.
void schedule_form(AmxStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
// One task is one tile of rows, whose pairs are laid once, by some columns, two AMX tiles at a time through the whole depth. No
// task_rows.
void schedule_form(AmxWeightStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Software prefetch of weights (prefetch.h) `depth` terms ahead of their reads, a multiple of a block or of the depth of an AMX
// tile. in_runs: in the runs of prefetch.h, where `depth` is a depth block's; weights that are packed are prefetched while the
// depth block before is summed. Forms without prefetch refuse.
struct WeightPrefetch {
    const Halide::ImageParam &weight;
    int depth;
    bool in_runs;
};
void prefetch_weights(LinearSums &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(PanelStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(WidenedPanelStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(Bf16DotPanelStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(RowStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(InterleavedRowStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(Bf16DotLineStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(AmxStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);
void prefetch_weights(AmxWeightStages &, Halide::Func out, Passes &, const PanelParameters &, const WeightPrefetch &);

// While a register tile of panels is computed, rows of x for the next tile are prefetched: of the same depth block, or of the
// next one where tile_depth_blocks is 0.
void prefetch_rows(PanelStages &, Halide::Func out, Passes &, const Halide::ImageParam &x, const PanelParameters &);

}  // namespace attune
