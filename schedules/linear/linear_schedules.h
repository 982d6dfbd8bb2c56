// SPDX-License-Identifier: MIT
// How products with a matrix are computed: one free function for each form of their sums. No equation, no Func of its own but
// wrappers.
#pragma once
#include "generators/linear/linear_forms.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no parameters.
void schedule_root(PanelStages &, Halide::Func out);

struct PanelParameters {
    int depth_block;   // depth of a partial sum (the stages' depth block), a multiple of block
    int task_rows;     // rows for which a task packs its weights once, a multiple of tile_rows; a call may take fewer
                       // (tile_rows for Bf16DotLineStages)
    int tile_rows;     // rows of a register tile
    int tile_columns;  // its columns, and those of a task; a multiple of the vector width
    int block;         // side of the blocks in which weights are transposed (the stages' block): the vector width, or 0
    // Depth blocks that a register tile takes before the next one does, so that its sums stay in L1 between them; their weights
    // should stay in L2. 0: all of them, and a tile leaves for out before the next one begins.
    int tile_depth_blocks;
    int accumulators = 1;  // of pairs (the stages' accumulators), a divisor of the vector width
    // Of interleaved depth blocks, or of pairs of few rows: interleaved vectors, since a sum waits for the one before. 0: 1 of
    // the former, of the latter those of 8 columns.
    int interleaved_vectors = 0;
    // Tiles of rows of a task that the call asks for; not defined: those of task_rows.
    Halide::Expr tiles_of_call = {};
    Halide::Expr one_depth_block = {};  // whether the depth is of one depth block; not defined: it is not asked
    Halide::Expr tiles_of_task() const {
        const Halide::Expr most = task_rows / tile_rows;
        return tiles_of_call.defined() ? clamp(tiles_of_call, 1, most) : most;
    }
};
// One task is one tile of columns for some rows. Lanes are columns. The bits are the same whatever the parameters but
// depth_block and accumulators.

// Weights are packed for a task, a depth block at a time, so that the sums read them from L2 one line after the other.
// tile_depth_blocks of PanelStages may be any, and must be 1 of the others; of Bf16DotEpilogueStages 0.
void schedule_form(PanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(WidenedPanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotPanelStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotEpilogueStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// The sums of few rows take weights from registers instead: blocks, which are transposed there, or pairs, and then lanes are
// the accumulators of some columns.
void schedule_form(RowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(InterleavedRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(WidenedRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotRowStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
void schedule_form(Bf16DotLineStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Few rows, of which a task takes some columns: their sums stay in L1, and update_depth rows of weights (the stages') are added
// to all of them before the next ones are, so that what is read are runs of a whole tile of columns.
void schedule_form(RankKStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Products of AMX tiles, of pairs of bf16: weights are laid for all rows of a task, a depth block at a time or, where
// tile_depth_blocks is 0, of the whole depth; rows of x for a tile of rows.
void schedule_form(AmxStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);
// One task is one tile of rows, whose pairs are laid once, by some columns, which it takes two AMX tiles at a time through
// the whole depth. Has no task_rows.
void schedule_form(AmxWeightStages &, Halide::Func out, const PanelParameters &, const Halide::Target &);

// Software prefetch of weights (prefetch.h) by what reads them `depth` terms before, a multiple of a block or of the depth of a
// AMX tile. in_runs: in the runs of prefetch.h, where `depth` is that of a depth block; weights that are packed come while the
// depth block before is summed. Forms for which there is none refuse.
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

// While a register tile of panels is computed, rows of x are prefetched for the next: of the same depth block, or of the next
// one where tile_depth_blocks is 0.
void prefetch_rows(PanelStages &, Halide::Func out, Passes &, const Halide::ImageParam &x, const PanelParameters &);

}  // namespace attune
