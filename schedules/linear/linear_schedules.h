// How products with a matrix are computed: one free function per schedule. No equation, no Func of its own but wrappers.
#pragma once
#include "generators/linear/linear_stages.h"
#include "lowering/lower.h"

namespace attune {

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no numbers.
void schedule_root(LinearStages &, Halide::Func out);

struct PanelTuning {
    int chunk;         // depth of a partial sum (the stages' chunk), a multiple of block
    int task_rows;     // rows for which a task packs its weights once, a multiple of tile_rows; a call may take fewer
                       // (tile_rows of few rows of pairs that are read by lines)
    int tile_rows;     // rows of a register tile
    int tile_columns;  // its columns, and those of a task; a multiple of the vector width
    int block;         // side of the blocks in which weights are transposed (the stages' block): the vector width, or 0
    // Chunks that a register tile takes before the next one does, so that its sums stay in L1 between them; their weights
    // should stay in L2. 0: all of them, and a tile leaves for out before the next one begins.
    int tile_chunks;
    int strands = 1;  // of pairs (the stages' strands), a divisor of the vector width
    // Vectors of chunks abreast, or of pairs of few rows, that take turns, since a sum waits for the one before. 0: 1 of the former, of
    // the latter those of 8 columns.
    int turns = 0;
    // Tiles of rows of a task that the call asks for; not defined: those of task_rows.
    Halide::Expr tiles_of_call = {};
    Halide::Expr one_chunk = {};  // whether the depth is of one chunk; not defined: it is not asked
    Halide::Expr tiles_of_task() const {
        const Halide::Expr most = task_rows / tile_rows;
        return tiles_of_call.defined() ? clamp(tiles_of_call, 1, most) : most;
    }
};
// One task is one tile of columns for some rows. Lanes are columns. Weights are packed for a task, a chunk at a time, so that
// the sums read them from L2 one line after the other. The sums of few rows take weights from registers instead: blocks, which
// are transposed there, or pairs, and then lanes are the strands of some columns. For few rows and for many; the bits are the
// same whatever the numbers but chunk and strands.
void schedule_panels(LinearStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Few rows, of which a task takes some columns: their sums stay in L1, and pass_depth rows of weights (the stages') are added to
// all of them before the next ones are, so that what is read are runs of a whole tile of columns.
void schedule_passes(LinearStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// The same by products of matrix tiles, of pairs of bf16: weights are laid for all rows of a task, a chunk at a time or, where
// tile_chunks is 0, of the whole depth; rows of x for a tile of rows.
void schedule_tiles(LinearStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Of linear_weight_tile_stages: one task is one tile of rows, whose pairs are laid once, by some columns, which it takes two
// matrix tiles at a time through the whole depth. Has no task_rows.
void schedule_weight_tiles(LinearStages &, Halide::Func out, const PanelTuning &, const Halide::Target &);

// Weights that are read by blocks, into a panel or by sums of few rows, or as they lie by weight_tiles, are fetched (prefetch.h) when
// what reads them is `depth` terms before them, a multiple of a block or of the depth of a matrix tile; 0: they are not. in_runs: in the
// runs of prefetch.h, where `depth` is that of a chunk; weights that are packed come while the chunk before is summed.
void fetch_weights_ahead(LinearStages &, Halide::Func out, Passes &, const Halide::ImageParam &weight, const PanelTuning &,
                         int depth, bool in_runs);

// While a register tile of panels is computed, rows of x are fetched for the next: of the same chunk, or of the next one where
// tile_chunks is 0.
void fetch_rows_ahead(LinearStages &, Halide::Func out, Passes &, const Halide::ImageParam &x, const PanelTuning &);

// What panels and passes share: a register tile that is given, of whole vectors.
void require_tile(const PanelTuning &, int lanes);

// What panels and tiles share: the side of the blocks in which weights are transposed, and the weights that a task, or a chunk of
// one, packs.
void require_block(int block, int lanes);
void schedule_panel(LinearStages &, const Halide::LoopLevel &at, int columns, int block, int lanes, int strands = 1);

}  // namespace attune
