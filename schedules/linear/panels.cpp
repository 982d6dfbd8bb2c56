// SPDX-License-Identifier: MIT
// Weights in panels: packed for a task, read by register tiles of rows by columns.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// The register tile of a chunk's sums.
void schedule_micro_kernel(PanelStages &s, const LoopLevel &at, const PanelTuning &tuning, int lanes) {
    in_register_tile(s, s.partial, at, tuning.tile_columns, tuning).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    s.partial.update().reorder(s.n, s.m, s.partial_k).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
}

void schedule_operands(PanelStages &s, const LoopLevel &of_rows, const LoopLevel &of_panel, const PanelTuning &tuning,
                       int lanes) {
    if (s.x_rows.defined()) s.x_rows.compute_at(of_rows).vectorize(s.k, lanes, TailStrategy::RoundUp);
    if (s.panel.defined()) schedule_panel(s, s.panel, s.transpose, of_panel, tuning, lanes);
}

// Each register tile takes the whole depth, and leaves for out before the next one begins.
void schedule_whole_depth(PanelStages &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_tasks_by_tiles(s, out, tuning, lanes);
    in_register_tile(s, s.product, LoopLevel(out, tile), tuning.tile_columns, tuning)
        .vectorize(s.n, lanes)
        .unroll(s.n)
        .unroll(s.m);
    Stage product = s.product.update();
    product.reorder(s.n, s.m, s.product_chunk, s.h, s.b).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (tuning.one_chunk.defined()) product.specialize(tuning.one_chunk);
    schedule_micro_kernel(s, LoopLevel(s.product, s.product_chunk), tuning, lanes);
    schedule_operands(s, LoopLevel(out, task), LoopLevel(out, task), tuning, lanes);
}

// All rows of a task take a chunk before the next.
void schedule_one_chunk(PanelStages &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    split_in_tiles(s, s.product.update(), tuning);
    vectorize_product(s, s.product.update(), lanes);
    const LoopLevel chunk(s.product, s.product_chunk);
    schedule_micro_kernel(s, LoopLevel(s.product, mo), tuning, lanes);
    schedule_operands(s, chunk, chunk, tuning, lanes);
}

// All rows of a task take some chunks before the next.
void schedule_several_chunks(PanelStages &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    Stage product = s.product.update();
    split_in_tiles(s, product, tuning);
    RVar turn("turn"), in_turn("in_turn");
    // Not in whole turns and a last one: of a depth of less than one, every block of weights would be cut short.
    product.split(s.product_chunk, turn, in_turn, tuning.tile_chunks)
        .reorder(s.n, mi, in_turn, mo, turn, s.h, s.b)
        .partition(turn, Partition::Never);
    vectorize_product(s, product, lanes);
    const LoopLevel chunks(s.product, turn);
    schedule_micro_kernel(s, LoopLevel(s.product, in_turn), tuning, lanes);
    schedule_operands(s, chunks, chunks, tuning, lanes);
}

// The register tile of pairs that are added one after the other. One row takes all accumulators at a time, since neighbouring
// weights belong to different ones.
void schedule_micro_kernel(WidenedPanelStages &s, const LoopLevel &at, const PanelTuning &tuning, int lanes) {
    const bool one_row = tuning.tile_rows == 1;
    in_register_tile(s, s.partial, at, tuning.tile_columns, tuning).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (one_row) s.partial.bound(s.u, 0, tuning.accumulators).unroll(s.u);
    auto in_lanes_of_columns = [&](Stage sums) {
        sums.vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
        if (one_row) sums.unroll(s.u);
    };
    in_lanes_of_columns(s.partial.update(0).reorder(s.n, s.m, s.pair, s.u, s.partial_k));
    in_lanes_of_columns(s.partial.update(1).reorder(s.n, s.m, s.rest_pair, s.u));
}

}  // namespace

void schedule_form(PanelStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_task(tuning, lanes);
    require_no_turns(tuning);
    if (s.transpose) require_blocks(tuning, lanes);
    if (tuning.tile_chunks == 0)
        schedule_whole_depth(s, out, tuning, lanes);
    else if (tuning.tile_chunks == 1)
        schedule_one_chunk(s, out, tuning, lanes);
    else
        schedule_several_chunks(s, out, tuning, lanes);
}

void schedule_form(WidenedPanelStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_task(tuning, lanes);
    require_no_turns(tuning);
    require_one_chunk(tuning);
    require_pairs(tuning);
    if (s.transpose) require_blocks(tuning, lanes);
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    // All accumulators of a tile before the next tile, in a loop: of one expression LLVM would make a sum in another order.
    Stage product = s.product.update(0);
    split_in_tiles(s, product, tuning);
    vectorize_product(s, product, lanes);
    product.reorder(s.n, mi, s.product_accumulator, mo, s.product_chunk, s.h, s.b);
    schedule_odd(s, 1, lanes);

    const bool one_row = tuning.tile_rows == 1;
    const LoopLevel chunk(s.product, s.product_chunk);
    schedule_micro_kernel(s, one_row ? LoopLevel(s.product, mo) : LoopLevel(s.product, s.product_accumulator), tuning, lanes);
    s.x_rows.compute_at(chunk).vectorize(s.k, lanes, TailStrategy::RoundUp);
    // A block begins where its table does, also in a chunk that begins behind the last whole group of accumulators.
    if (s.transpose) s.panel.align_bounds(s.k, tuning.block);
    schedule_panel(s, s.panel, s.transpose, chunk, tuning, lanes);
}

}  // namespace attune
