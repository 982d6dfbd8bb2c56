// SPDX-License-Identifier: MIT
// Passes over Halide's intermediate code, applied in one order.
#pragma once
#include "Halide.h"
#include "lowering/lowered_loop.h"
#include "lowering/passes/lift_row_shifts.h"
#include "lowering/passes/prefetch.h"
#include <vector>

namespace attune {

// The passes of a kernel. A generator chooses them, lower() orders them. The members stand in the order of application.
struct Passes {
    // CUDA.
    bool trim_gpu_loops = false;             // passes/trim_gpu_loops.h
    bool thread_local_registers = false;     // passes/thread_local_registers.h
    bool async_copies = false;               // passes/async_copies.h
    std::vector<LoweredLoop> loop_barriers;  // passes/loop_barriers.h
    bool rounded_products = false;           // passes/rounded_products.h
    // AMX.
    bool join_amx_tiles = false;      // passes/join_amx_tiles.h
    bool load_tiles_past_l1 = false;  // passes/load_tiles_past_l1.h
    // Storage and loads. These passes apply wherever their pattern occurs, and leave a kernel without it as it is.
    bool whole_vectors = false;                         // passes/whole_vectors.h
    bool pin_stack_slots = false;                       // passes/pin_stack_slots.h
    std::vector<Halide::ImageParam> masked_tail_loads;  // passes/mask_tail_loads.h, of these inputs
    // Prefetches, after all passes that change the loads whose addresses they take: passes/prefetch.h.
    std::vector<Prefetch> prefetches;
    // After prefetches, whose addresses read the table too.
    std::vector<LiftedShifts> lifted_shifts;  // passes/lift_row_shifts.h
    // AArch64, wherever their pattern occurs. After the passes that find loops by name and count their rounds.
    bool bf16_dots = true;             // passes/bf16_dots.h
    bool int8_matrix_products = true;  // passes/int8_matrix_products.h
    bool broadcast_lanes = true;       // passes/broadcast_lanes.h
    bool fused_products = true;        // passes/fused_products.h
};

// Adds the passes to the pipeline, whose schedule may be completed afterwards.
void lower(Halide::Pipeline, const Passes &, const Halide::Target &);

}  // namespace attune
