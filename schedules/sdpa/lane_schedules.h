// How attention in the form of lane_stages.h is computed: on a GPU. No equation, no Func of its own.
#pragma once
#include "generators/sdpa/lane_stages.h"

namespace attune {

// Lanes of a warp.
constexpr int lanes_in_step = 32;

struct LanesTuning {
    LaneShape lanes;
    int chunk;      // keys that are taken up together (the stages' chunk)
    int tile_q;     // rows of a block, a multiple of those of a warp
    int loaded;     // channels that a lane loads together
    bool exchange;  // of the stages' instructions: else each lane computes the shares of its neighbours, too
};
// One warp is one tile of queries of one head; all that it holds is in registers, keys and values are read through the cache.
void schedule_lanes(LaneStages &, Halide::Func out, const LanesTuning &);

// By the instructions of CUDA; for any other target by plain expressions, each lane computing what its neighbours do.
LaneInstructions lane_instructions(const Halide::Target &);

}  // namespace attune
