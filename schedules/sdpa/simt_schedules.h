// SPDX-License-Identifier: MIT
// GPU schedules of attention in the form of simt_stages.h. No equation, no Func of their own.
#pragma once
#include "generators/attention/backward/row_stages.h"
#include "generators/attention/gpu/capture_gradient_stages.h"
#include "generators/attention/gpu/simt_gradient_stages.h"
#include "generators/attention/gpu/simt_stages.h"
#include "generators/attention/gpu/table_gradient_stages.h"
#include "generators/attention/gpu/weights_simt_stages.h"

namespace attune {

// Lanes of a warp.
constexpr int lanes_in_step = 32;

struct SimtParameters {
    SimtShape lanes;
    int kv_block;   // keys that are computed or left out together (the stages' kv_block)
    int tile_q;     // rows of a block, a multiple of a warp's
    int loaded;     // channels that a lane loads together
    bool exchange;  // of the stages' instructions; false: each lane computes its neighbours' shares, too

    int terms() const { return exchange ? 1 : lanes.channel_lanes; }  // lanes whose shares a lane computes
};
// One warp is one tile of queries of one head; its state is in registers, keys and values are read through the cache.
void schedule_simt(SimtStages &, Halide::Func out, const SimtParameters &);
// Split form: a block is tile_q rows of one key head and one split of its keys; the merge is a kernel of its own.
void schedule_split_simt(SimtStages &, Halide::Func out, Halide::Func state, const SimtParameters &, int split_keys);
// The merge of any split form.
void schedule_merge_of_splits(const SdpaStages &, const SdpaStages &merged, Halide::Func out);

// Rows are those of the gradient; each gradient is a kernel of its own.
void schedule_simt_gradient(SimtGradient &, const SimtParameters &);
// The copies of the gradient of a captured buffer, and their sum: a kernel each.
void schedule_capture_gradient(CaptureGradientStages &);
// The gradients of a bias and of slopes.
void schedule_table_gradients(TableGradientStages &);
// Weights as an output.
void schedule_weights_simt(WeightsSimtStages &);
// Computes a pair, or its parts, in the registers of a lane.
void keep_pair_in_lane(Halide::Func, const Halide::LoopLevel &);
// Values of the gradients for each query alone: a lane is a query, and loads `loaded` of its channels together.
void schedule_device_rows(BackwardRowsStages &, Halide::Func rows, int loaded);

// Parts of the schedules. Result is an update over these loops: a block is some warps, a warp its lanes; a lane writes its
// state. The loop over lanes is the only one left inside of `block`.
struct LaneLoops {
    Halide::RVar element, row, share, row_lane;
};
Halide::RVar distribute_to_lanes(Halide::Func result, const LaneLoops &, const SimtParameters &, const Halide::RVar &block);
// Registers of a lane, for its rows and for `streamed` rows and `lanes` neighbours: constant extents, without which they would
// be memory.
Halide::Func keep_in_lane(Halide::Func, const Halide::LoopLevel &, const SimtParameters &, int streamed = 1, int lanes = 1);
// Operands read from memory, in the widest loads.
void load_in_lane(Halide::Func, const SimtParameters &);

// CUDA instructions; for other targets plain expressions, where each lane computes its neighbours' shares, too.
SimtInstructions simt_instructions(const Halide::Target &);

}  // namespace attune
