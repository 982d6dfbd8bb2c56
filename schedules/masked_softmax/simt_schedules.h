// SPDX-License-Identifier: MIT
// How masked softmax in the form of masked_softmax_simt_stages.h is computed: on a GPU. No equation, no Func of its own.
#pragma once
#include "generators/masked_softmax/masked_softmax_simt_stages.h"

namespace attune {

// A block is `block_rows` rows, each of which its lanes share; of one row where lanes are more than reach each other, which
// then meet in shared memory.
void schedule_softmax_simt(SoftmaxSimtStages &, Halide::Func out, const SoftmaxLanes &, int block_rows);

// By the instructions of CUDA; for any other target by plain expressions and shared memory alone.
SoftmaxLanes softmax_lanes(int lanes, int keys, const Halide::Target &);

}  // namespace attune
