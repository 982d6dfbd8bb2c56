// SPDX-License-Identifier: MIT
// Weights in panels (Goto and van de Geijn 2008): packed for a task, read by register tiles of rows by columns.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// The micro-kernel of a depth block's sums.
void schedule_micro_kernel(PanelStages &s, const LoopLevel &at, const PanelParameters &parameters, int lanes) {
    in_register_tile(s, s.partial, at, parameters.tile_columns, parameters).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    s.partial.update().reorder(s.n, s.m, s.partial_k).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
}

void schedule_operands(PanelStages &s, const LoopLevel &of_rows, const LoopLevel &of_panel, const PanelParameters &parameters,
                       int lanes) {
    schedule_widened_rows(s, s.x_rows, of_rows, parameters, lanes);
    if (s.panel.defined()) schedule_panel(s, s.panel, s.transpose, of_panel, parameters, lanes);
}

// Each register tile takes the whole depth, and is stored to out before the next one begins.
void schedule_whole_depth(PanelStages &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_tasks_by_tiles(s, out, parameters, lanes);
    in_register_tile(s, s.product, LoopLevel(out, tile), parameters.tile_columns, parameters)
        .vectorize(s.n, lanes)
        .unroll(s.n)
        .unroll(s.m);
    Stage product = s.product.update();
    product.reorder(s.n, s.m, s.product_depth_block, s.h, s.b).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (parameters.one_depth_block.defined()) product.specialize(parameters.one_depth_block);
    schedule_micro_kernel(s, LoopLevel(s.product, s.product_depth_block), parameters, lanes);
    schedule_operands(s, LoopLevel(out, task), LoopLevel(out, task), parameters, lanes);
}

// All rows of a task take a depth block before the next.
void schedule_one_depth_block(PanelStages &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    split_in_tiles(s, s.product.update(), parameters);
    vectorize_product(s, s.product.update(), lanes);
    const LoopLevel depth_block(s.product, s.product_depth_block);
    schedule_micro_kernel(s, LoopLevel(s.product, mo), parameters, lanes);
    schedule_operands(s, depth_block, depth_block, parameters, lanes);
}

// All rows of a task take some depth blocks before the next.
void schedule_several_depth_blocks(PanelStages &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    Stage product = s.product.update();
    split_in_tiles(s, product, parameters);
    RVar group("group"), in_group("in_group");
    // Never partitioned in whole groups and a last one: for a depth below one group, every block of weights would be cut short.
    product.split(s.product_depth_block, group, in_group, parameters.tile_depth_blocks)
        .reorder(s.n, mi, in_group, mo, group, s.h, s.b)
        .partition(group, Partition::Never);
    vectorize_product(s, product, lanes);
    const LoopLevel depth_blocks(s.product, group);
    schedule_micro_kernel(s, LoopLevel(s.product, in_group), parameters, lanes);
    schedule_operands(s, depth_blocks, depth_blocks, parameters, lanes);
}

// The micro-kernel of pairs that are added one after the other. One row sums all accumulators at a time, because neighbouring
// weights belong to different accumulators.
void schedule_micro_kernel(WidenedPanelStages &s, const LoopLevel &at, const PanelParameters &parameters, int lanes) {
    const bool one_row = parameters.tile_rows == 1;
    in_register_tile(s, s.partial, at, parameters.tile_columns, parameters).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (one_row) s.partial.bound(s.u, 0, parameters.accumulators).unroll(s.u);
    auto in_lanes_of_columns = [&](Stage sums) {
        sums.vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
        if (one_row) sums.unroll(s.u);
    };
    in_lanes_of_columns(s.partial.update(0).reorder(s.n, s.m, s.pair, s.u, s.partial_k));
    in_lanes_of_columns(s.partial.update(1).reorder(s.n, s.m, s.rest_pair, s.u));
}

}  // namespace

void schedule_form(PanelStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_task(parameters, lanes);
    require_no_interleaved_vectors(parameters);
    if (s.transpose) require_blocks(parameters, lanes);
    if (parameters.tile_depth_blocks == 0)
        schedule_whole_depth(s, out, parameters, lanes);
    else if (parameters.tile_depth_blocks == 1)
        schedule_one_depth_block(s, out, parameters, lanes);
    else
        schedule_several_depth_blocks(s, out, parameters, lanes);
}

void schedule_form(WidenedPanelStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_task(parameters, lanes);
    require_no_interleaved_vectors(parameters);
    require_one_depth_block(parameters);
    require_pairs(parameters);
    if (s.transpose) require_blocks(parameters, lanes);
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    // All accumulators of a register tile before the next tile, in a loop: sums in one expression LLVM would reorder.
    Stage product = s.product.update(0);
    split_in_tiles(s, product, parameters);
    vectorize_product(s, product, lanes);
    product.reorder(s.n, mi, s.product_accumulator, mo, s.product_depth_block, s.h, s.b);
    schedule_odd(s, 1, lanes);

    const bool one_row = parameters.tile_rows == 1;
    const LoopLevel depth_block(s.product, s.product_depth_block);
    schedule_micro_kernel(s, one_row ? LoopLevel(s.product, mo) : LoopLevel(s.product, s.product_accumulator), parameters,
                          lanes);
    schedule_widened_rows(s, s.x_rows, depth_block, parameters, lanes);
    // A block begins where its table does, also in a depth block that begins behind the last whole group of accumulators.
    if (s.transpose) s.panel.align_bounds(s.k, parameters.block);
    schedule_panel(s, s.panel, s.transpose, depth_block, parameters, lanes);
}

}  // namespace attune
