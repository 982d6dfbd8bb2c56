// SPDX-License-Identifier: MIT
// Schedules that pack weights. No equation, no Func of their own.
#pragma once
#include "generators/linear/pack_stages.h"

namespace attune {

// Word by word: the oracle of the other. No parameters.
void schedule_root(PackStages &, Halide::Func packed);

struct BlockParameters {
    int block;  // side of the blocks in which weights are transposed (the stages' block): the words of a vector
};
// One task is one panel, from its first k to its last: rows of memory are read along k, block by block.
void schedule_blocks(PackStages &, Halide::Func packed, const BlockParameters &, const Halide::Target &);

}  // namespace attune
