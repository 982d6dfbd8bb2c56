// SPDX-License-Identifier: MIT
#include "lowering/lower.h"
#include "lowering/passes/async_copies.h"
#include "lowering/passes/bf16_dots.h"
#include "lowering/passes/broadcast_lanes.h"
#include "lowering/passes/fused_products.h"
#include "lowering/passes/int8_matrix_products.h"
#include "lowering/passes/join_amx_tiles.h"
#include "lowering/passes/load_tiles_past_l1.h"
#include "lowering/passes/loop_barriers.h"
#include "lowering/passes/mask_tail_loads.h"
#include "lowering/passes/pin_stack_slots.h"
#include "lowering/passes/rounded_products.h"
#include "lowering/passes/thread_local_registers.h"
#include "lowering/passes/trim_gpu_loops.h"
#include "lowering/passes/whole_vectors.h"

namespace attune {

void lower(Halide::Pipeline pipeline, const Passes &passes, const Halide::Target &target) {
    // Loop bounds first: the other passes for CUDA read the body of an iteration.
    if (passes.trim_gpu_loops) trim_gpu_loops(pipeline);
    // Copies recognise an array of a thread by its indices, which are constants once it is the thread's own.
    if (passes.thread_local_registers) use_thread_local_registers(pipeline);
    if (passes.async_copies) pipeline_async_copies(pipeline);
    add_loop_barriers(pipeline, passes.loop_barriers);
    if (passes.rounded_products) round_products(pipeline);
    if (passes.join_amx_tiles) join_amx_tiles(pipeline);
    // After the join, which finds the loads by Halide's name.
    if (passes.load_tiles_past_l1) load_tiles_past_l1(pipeline);
    if (passes.whole_vectors) shuffle_whole_vectors(pipeline);
    // After whole_vectors, which makes indices constant.
    if (passes.pin_stack_slots) pin_stack_slots(pipeline, target);
    if (!passes.masked_tail_loads.empty()) mask_tail_loads(pipeline, passes.masked_tail_loads, target);
    add_prefetches(pipeline, passes.prefetches);
    lift_row_shifts(pipeline, passes.lifted_shifts);
    if (passes.bf16_dots) use_bf16_dots(pipeline, target);
    if (passes.int8_matrix_products) use_int8_matrix_products(pipeline, target);
    // After the passes that find loops by name and count their rounds.
    if (passes.broadcast_lanes) broadcast_lanes(pipeline, target);
    // Last: the passes before read products and sums.
    if (passes.fused_products) fuse_products(pipeline, target);
}

}  // namespace attune
