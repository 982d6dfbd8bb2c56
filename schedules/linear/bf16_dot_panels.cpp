// SPDX-License-Identifier: MIT
// Weights in panels of bf16 pairs, read by register tiles of bf16 dot products.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// The micro-kernel of a depth block's sums. One row sums all accumulators at a time, because neighbouring weights belong to
// different accumulators.
void schedule_micro_kernel(Bf16DotPanelStages &s, Func partial, const LoopLevel &at, const PanelParameters &parameters,
                           int lanes) {
    const bool one_row = parameters.tile_rows == 1;
    in_register_tile(s, partial, at, parameters.tile_columns, parameters).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (one_row) partial.bound(s.u, 0, parameters.accumulators).unroll(s.u);
    auto in_lanes_of_columns = [&](Stage sums, const RVar &pair) {
        sums.atomic().vectorize(pair).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
        if (one_row) sums.unroll(s.u);
    };
    in_lanes_of_columns(partial.update(0).reorder(s.pair, s.n, s.m, s.u, s.partial_k), s.pair);
    if (parameters.accumulators > 1) in_lanes_of_columns(partial.update(1).reorder(s.rest_pair, s.n, s.m, s.u), s.rest_pair);
}

// One depth block after the other, in register tiles of rows.
void schedule_product(Bf16DotPanelStages &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_sums_of_task(s, out, parameters, lanes);
    Stage product = s.product.update(0);
    split_in_tiles(s, product, parameters);
    vectorize_product(s, product, lanes);
    if (parameters.accumulators == 1) return;
    // Register tiles take an accumulator of a depth block before the next, so that its weights stay in L1; one row takes all.
    // In a loop: sums in one expression LLVM would reorder.
    if (parameters.tile_rows == 1)
        product.reorder(s.n, mi, s.product_accumulator, mo, s.product_depth_block, s.h, s.b);
    else
        product.reorder(s.n, mi, mo, s.product_accumulator, s.product_depth_block, s.h, s.b);
}

void require_parameters(const Bf16DotPanelStages &s, const PanelParameters &parameters, int lanes) {
    require_task(parameters, lanes);
    require_no_interleaved_vectors(parameters);
    require_pairs(parameters);
    if (s.transpose) require_blocks(parameters, lanes);
}

}  // namespace

void schedule_form(Bf16DotPanelStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_parameters(s, parameters, lanes);
    require_one_depth_block(parameters);
    schedule_tasks(s, out, parameters, lanes);
    schedule_product(s, out, parameters, lanes);
    schedule_odd(s, 1, lanes);
    schedule_micro_kernel(s, s.partial, LoopLevel(s.product, mo), parameters, lanes);
    if (s.panel.defined()) schedule_panel(s, LoopLevel(s.product, s.product_depth_block), parameters, lanes);
}

void schedule_form(Bf16DotEpilogueStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_parameters(s, parameters, lanes);
    require(parameters.tile_rows > 1,
            "tile_depth_blocks is " + std::to_string(parameters.tile_depth_blocks) + ", must be 1 here");
    schedule_tasks_by_tiles(s, out, parameters, lanes);
    schedule_product(s, out, parameters, lanes);
    schedule_micro_kernel(s, s.partial.clone_in(out), LoopLevel(out, tile), parameters, lanes);
    schedule_micro_kernel(s, s.partial, LoopLevel(s.product, mo), parameters, lanes);
    if (s.panel.defined()) schedule_panel(s, LoopLevel(out, task), parameters, lanes);
}

}  // namespace attune
