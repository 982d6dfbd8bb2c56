// SPDX-License-Identifier: MIT
// How products with a matrix are computed: one free function for each form of their sums. No equation, no Func of its own but
// wrappers.
#pragma once
#include "generators/linear/linear_forms.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no numbers.
void schedule_root(PanelStages &, Halide::Func out);

struct PanelTuning {
    int chunk;         // depth of a partial sum (the stages' chunk), a multiple of block
    int task_rows;     // rows for which a task packs its weights once, a multiple of tile_rows; a call may take fewer
                       // (tile_rows for Bf16DotLineStages)
    int tile_rows;     // rows of a register tile
    int tile_columns;  // its columns, and those of a task; a multiple of the vector width
    int block;         // side of the blocks in which weights are transposed (the stages' block): the vector width, or 0
    // Chunks that a register tile takes before the next one does, so that its sums stay in L1 between them; their weights
    // should stay in L2. 0: all of them, and a tile leaves for out before the next one begins.
    int tile_chunks;
    int accumulators = 1;  // of pairs (the stages' accumulators), a divisor of the vector width
    // Of interleaved chunks, or of pairs of few rows: vectors that take turns, since a sum waits for the one before. 0: 1 of
    // the former, of the latter those of 8 columns.
    int turns = 0;
    // Tiles of rows of a task that the call asks for; not defined: those of task_rows.
    Halide::Expr tiles_of_call = {};
    Halide::Expr one_chunk = {};  // whether the depth is of one chunk; not defined: it is not asked
    Halide::Expr tiles_of_task() const {
        const Halide::Expr most = task_rows / tile_rows;
        return tiles_of_call.defined() ? clamp(tiles_of_call, 1, most) : most;
    }
};
// One task is one tile of columns for some rows. Lanes are columns. The bits are the same whatever the numbers but chunk and
// accumulators.

// Weights are packed for a task, a chunk at a time, so that the sums read them from L2 one line after the other. tile_chunks of
// PanelStages may be any, and must be 1 of the others; of Bf16DotEpilogueStages 0.
void schedule_form(PanelStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(WidenedPanelStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(Bf16DotPanelStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(Bf16DotEpilogueStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// The sums of few rows take weights from registers instead: blocks, which are transposed there, or pairs, and then lanes are
// the accumulators of some columns.
void schedule_form(RowStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(InterleavedRowStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(WidenedRowStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(Bf16DotRowStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
void schedule_form(Bf16DotLineStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Few rows, of which a task takes some columns: their sums stay in L1, and pass_depth rows of weights (the stages') are added
// to all of them before the next ones are, so that what is read are runs of a whole tile of columns.
void schedule_form(PassStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Products of matrix tiles, of pairs of bf16: weights are laid for all rows of a task, a chunk at a time or, where tile_chunks
// is 0, of the whole depth; rows of x for a tile of rows.
void schedule_form(AmxStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);
// One task is one tile of rows, whose pairs are laid once, by some columns, which it takes two matrix tiles at a time through
// the whole depth. Has no task_rows.
void schedule_form(AmxWeightStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Software prefetch of weights (prefetch.h) by what reads them `depth` terms before, a multiple of a block or of the depth of a
// matrix tile. in_runs: in the runs of prefetch.h, where `depth` is that of a chunk; weights that are packed come while the
// chunk before is summed. Forms for which there is none refuse.
struct WeightPrefetch {
    const Halide::ImageParam &weight;
    int depth;
    bool in_runs;
};
void prefetch_weights(LinearSums &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(PanelStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(WidenedPanelStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(Bf16DotPanelStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(RowStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(InterleavedRowStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(Bf16DotLineStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(AmxStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);
void prefetch_weights(AmxWeightStages &, Halide::Func out, Passes &, const PanelTuning &, const WeightPrefetch &);

// While a register tile of panels is computed, rows of x are prefetched for the next: of the same chunk, or of the next one
// where tile_chunks is 0.
void prefetch_rows(PanelStages &, Halide::Func out, Passes &, const Halide::ImageParam &x, const PanelTuning &);

}  // namespace attune
