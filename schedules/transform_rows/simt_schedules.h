// SPDX-License-Identifier: MIT
// GPU schedules of the steps on rows. No equation, no Func of its own.
#pragma once
#include "generators/rows/transform_rows_stages.h"
#include "lowering/lower.h"

namespace attune {

// A block is a row of one head, whose `lanes` take neighbouring channels. The row, of at most so many channels, stands in
// shared memory between its steps.
struct SimtRowsParameters {
    int lanes, channels;
};
void schedule_rows_simt(TransformRowsStages &, const SimtRowsParameters &);
void schedule_rows_simt(QuantiseRowsStages &, const SimtRowsParameters &);
// Passes of the kernel: each pass of the Hadamard rotation reads what other lanes stored in the one before.
Passes passes_of_rows(const RowTransform &, const Halide::Target &);

}  // namespace attune
