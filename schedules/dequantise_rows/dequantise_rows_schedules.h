// SPDX-License-Identifier: MIT
// Schedule of quantised rows as numbers.
#pragma once
#include "generators/rows/dequantise_rows_stages.h"

namespace attune {

struct DequantiseRowsParameters {
    int task_rows;  // rows of a head that a task computes
};
void schedule_rows(DequantiseRowsStages &, const DequantiseRowsParameters &, const Halide::Target &);

}  // namespace attune
