// SPDX-License-Identifier: MIT
// GPU schedule of the merge in the form of merge_simt_stages.h. No equation, no Func of its own.
#pragma once
#include "generators/merge/merge_simt_stages.h"

namespace attune {

// A warp takes a row of a block of `block_rows`; its lanes read neighbouring channels, and each computes the values that the
// row has once. lse is computed behind all rows of out, since it may be the lse of a part.
void schedule_merge_simt(MergeSimtStages &, Halide::Func out, Halide::Func lse, int block_rows);

}  // namespace attune
