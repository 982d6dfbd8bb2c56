// SPDX-License-Identifier: MIT
// How attention in the form of simt_stages.h is computed: on a GPU. No equation, no Func of its own.
#pragma once
#include "generators/attention/backward/row_stages.h"
#include "generators/attention/gpu/simt_gradient_stages.h"
#include "generators/attention/gpu/simt_stages.h"

namespace attune {

// Lanes of a warp.
constexpr int lanes_in_step = 32;

struct SimtParameters {
    SimtShape lanes;
    int kv_block;   // keys that are taken together (the stages' kv_block)
    int tile_q;     // rows of a block, a multiple of those of a warp
    int loaded;     // channels that a lane loads together
    bool exchange;  // of the stages' instructions: else each lane computes the shares of its neighbours, too

    int terms() const { return exchange ? 1 : lanes.channel_lanes; }  // lanes whose shares a lane computes
};
// One warp is one tile of queries of one head; all that it holds is in registers, keys and values are read through the cache.
void schedule_simt(SimtStages &, Halide::Func out, const SimtParameters &);
// Split form: a block is tile_q rows of one key head and one split of its keys, and the merge is a kernel of its own.
void schedule_split_simt(SimtStages &, Halide::Func out, Halide::Func state, const SimtParameters &, int split_keys);
// Of any split form.
void schedule_merge_of_splits(const SdpaStages &, const SdpaStages &merged, Halide::Func out);

// Rows are of the gradient, and each of them is a kernel of its own.
void schedule_simt_gradient(SimtGradient &, const SimtParameters &);
// What gradients need of each query alone: a lane is a query, and loads so many of its channels together.
void schedule_device_rows(BackwardRowsStages &, Halide::Func rows, int loaded);

// Parts of them. Result is an update over these loops: a block is some warps, a warp its lanes; a lane writes what it holds.
// The loop over lanes is what is left inside of `block`.
struct LaneLoops {
    Halide::RVar element, row, share, row_lane;
};
Halide::RVar distribute_to_lanes(Halide::Func result, const LaneLoops &, const SimtParameters &, const Halide::RVar &block);
// Registers of a lane, for its rows and as many of the streamed rows and of its neighbours: of constant extents, or they would
// be memory.
Halide::Func keep_in_lane(Halide::Func, const Halide::LoopLevel &, const SimtParameters &, int streamed = 1, int lanes = 1);
// What is read from memory, in the widest loads.
void load_in_lane(Halide::Func, const SimtParameters &);

// By the instructions of CUDA; for any other target by plain expressions, each lane computing what its neighbours do.
SimtInstructions simt_instructions(const Halide::Target &);

}  // namespace attune
