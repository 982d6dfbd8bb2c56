// SPDX-License-Identifier: MIT
// Parts of the schedules of linear layers, shared by all forms.
#pragma once
#include "schedules/linear/linear_schedules.h"

namespace attune {

// Loops of the schedules.
namespace linear_loops {
inline const Halide::Var task("task"), tile("tile");  // of out: tasks, and register tiles of a task
inline const Halide::Var no("no"), ni("ni"),
    columns("columns");                       // tiles of columns, and a column in one; columns of interleaved vectors
inline const Halide::Var mo("mo"), mi("mi");  // tiles of rows, and a row in one
inline const Halide::Var ko("ko"), ki("ki");  // blocks of the depth, and a term of one
inline const Halide::Var interleaved_vector("interleaved_vector");  // interleaved vectors
}  // namespace linear_loops

// Require a register tile of whole vectors; and task_rows, where weights are packed for a task.
void require_tile(const PanelParameters &, int lanes);
void require_task(const PanelParameters &, int lanes);
// Require the parameters of sums over pairs; of sums one depth block after the other; and no interleaved vectors.
void require_pairs(const PanelParameters &);
void require_one_depth_block(const PanelParameters &);
void require_no_interleaved_vectors(const PanelParameters &);
// Require the side of the blocks in which weights are transposed; and that the blocks fill a depth block.
void require_block(const PanelParameters &, int lanes);
void require_blocks(const PanelParameters &, int lanes);

// Tasks, columns first: neighbours share their rows of x. Loops of out: ni column, mi row, task.
void schedule_tasks(LinearSums &, Halide::Func out, const PanelParameters &, int lanes);
// schedule_tasks() by register tiles: `tile` is the loop over the register tiles of a task.
void schedule_tasks_by_tiles(LinearSums &, Halide::Func out, const PanelParameters &, int lanes);
// Fused loops no, mo, h and b of out; and the bias of a task.
void fuse_tasks(const LinearSums &, Halide::Func out);
void schedule_start(LinearSums &, Halide::Func out, const PanelParameters &, int lanes);

// The sums of a task, where all rows take one depth block after the other, so that its weights stay in L2: product and its rows
// in register tiles, mo over tiles and mi within one.
void schedule_sums_of_task(LinearSums &, Halide::Func out, const PanelParameters &, int lanes);
void split_in_tiles(LinearSums &, Halide::Stage product, const PanelParameters &);
void vectorize_product(const LinearSums &, Halide::Stage product, int lanes);
// The last product of an odd depth, update `update` of product, in vectors of `columns` columns.
void schedule_odd(PairSums &, int update, int columns);

// Fills register tiles of rows: kernels multiply whole tiles, and where the padding of a tile was
// whatever scratch held, among it subnormal numbers, an Intel core took 150 cycles for each of its products.
void fill_tiles_of_rows(const LinearSums &, Halide::Func of_rows, const PanelParameters &);
// x in the type of sums, where it has another type.
void schedule_widened_rows(const LinearSums &, Halide::Func x_rows, const Halide::LoopLevel &at, const PanelParameters &,
                           int lanes);

// A partial sum in registers, of a register tile of `columns` columns.
Halide::Func in_register_tile(const LinearSums &, Halide::Func partial, const Halide::LoopLevel &at, int columns,
                              const PanelParameters &);

// Weights that a task, or a depth block of a task, packs: (n, k), (e, n, k) and (e, n, k, u).
void schedule_panel(const LinearSums &, Halide::Func panel, const std::optional<BlockTranspose> &, const Halide::LoopLevel &at,
                    const PanelParameters &, int lanes);
void schedule_pair_panel(const LinearSums &, Halide::Func panel, const std::optional<BlockTranspose> &,
                         const Halide::LoopLevel &at, const PanelParameters &, int lanes);
void schedule_panel(Bf16DotPanelStages &, const Halide::LoopLevel &at, const PanelParameters &, int lanes);

}  // namespace attune
