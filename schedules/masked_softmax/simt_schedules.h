// SPDX-License-Identifier: MIT
// GPU schedule of masked softmax in the form of masked_softmax_simt_stages.h. No equation, no Func of its own.
#pragma once
#include "generators/masked_softmax/masked_softmax_simt_stages.h"

namespace attune {

// A block is `block_rows` rows, each shared by its lanes; one row where there are more lanes than reach each other, which then
// combine in shared memory.
void schedule_softmax_simt(SoftmaxSimtStages &, Halide::Func out, const SoftmaxLanes &, int block_rows);

// CUDA instructions; for other targets plain expressions and shared memory alone.
SoftmaxLanes softmax_lanes(int lanes, int keys, const Halide::Target &);

}  // namespace attune
