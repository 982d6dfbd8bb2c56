// SPDX-License-Identifier: MIT
// Weights in panels of bf16 pairs, read by register tiles of dot products.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// The register tile of a chunk's sums. One row takes all accumulators at a time, since neighbouring weights belong to different
// ones.
void schedule_micro_kernel(Bf16DotPanelStages &s, Func partial, const LoopLevel &at, const PanelTuning &tuning, int lanes) {
    const bool one_row = tuning.tile_rows == 1;
    in_register_tile(s, partial, at, tuning.tile_columns, tuning).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    if (one_row) partial.bound(s.u, 0, tuning.accumulators).unroll(s.u);
    auto in_lanes_of_columns = [&](Stage sums, const RVar &pair) {
        sums.atomic().vectorize(pair).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
        if (one_row) sums.unroll(s.u);
    };
    in_lanes_of_columns(partial.update(0).reorder(s.pair, s.n, s.m, s.u, s.partial_k), s.pair);
    if (tuning.accumulators > 1) in_lanes_of_columns(partial.update(1).reorder(s.rest_pair, s.n, s.m, s.u), s.rest_pair);
}

// Chunk by chunk, in register tiles of rows.
void schedule_product(Bf16DotPanelStages &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_sums_of_task(s, out, tuning, lanes);
    Stage product = s.product.update(0);
    split_in_tiles(s, product, tuning);
    vectorize_product(s, product, lanes);
    if (tuning.accumulators == 1) return;
    // Tiles take an accumulator of a chunk before the next, so that its weights stay in L1; one row all of them. In a loop: of
    // one expression LLVM would make a sum in another order.
    if (tuning.tile_rows == 1)
        product.reorder(s.n, mi, s.product_accumulator, mo, s.product_chunk, s.h, s.b);
    else
        product.reorder(s.n, mi, mo, s.product_accumulator, s.product_chunk, s.h, s.b);
}

void require_numbers(const Bf16DotPanelStages &s, const PanelTuning &tuning, int lanes) {
    require_task(tuning, lanes);
    require_no_turns(tuning);
    require_pairs(tuning);
    if (s.transpose) require_blocks(tuning, lanes);
}

}  // namespace

void schedule_form(Bf16DotPanelStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_numbers(s, tuning, lanes);
    require_one_chunk(tuning);
    schedule_tasks(s, out, tuning, lanes);
    schedule_product(s, out, tuning, lanes);
    schedule_odd(s, 1, lanes);
    schedule_micro_kernel(s, s.partial, LoopLevel(s.product, mo), tuning, lanes);
    if (s.panel.defined()) schedule_panel(s, LoopLevel(s.product, s.product_chunk), tuning, lanes);
}

void schedule_form(Bf16DotEpilogueStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_numbers(s, tuning, lanes);
    require(tuning.tile_rows > 1, "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 1 here");
    schedule_tasks_by_tiles(s, out, tuning, lanes);
    schedule_product(s, out, tuning, lanes);
    schedule_micro_kernel(s, s.partial.clone_in(out), LoopLevel(out, tile), tuning, lanes);
    schedule_micro_kernel(s, s.partial, LoopLevel(s.product, mo), tuning, lanes);
    if (s.panel.defined()) schedule_panel(s, LoopLevel(out, task), tuning, lanes);
}

}  // namespace attune
