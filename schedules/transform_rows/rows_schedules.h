// SPDX-License-Identifier: MIT
// Schedules of the steps on rows.
#pragma once
#include "generators/rows/transform_rows_backward_stages.h"
#include "generators/rows/transform_rows_stages.h"

namespace attune {

struct RowsParameters {
    int task_rows;  // rows of all heads that a task computes
};
void schedule_rows(TransformRowsStages &, const RowsParameters &, const Halide::Target &);
void schedule_rows(QuantiseRowsStages &, const RowsParameters &, const Halide::Target &);
void schedule_rows(TransformRowsBackwardStages &, Halide::Func grad_x, Halide::Func grad_weight, const RowsParameters &,
                   const Halide::Target &);

}  // namespace attune
