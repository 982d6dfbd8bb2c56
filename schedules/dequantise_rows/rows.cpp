// SPDX-License-Identifier: MIT
// One task is some rows of a head. Lanes are channels; of four bits both of a byte.
#include "schedules/dequantise_rows/dequantise_rows_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(DequantiseRowsStages &s, const DequantiseRowsParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(Float(32));
    const Var task("task"), row("row");
    const auto tasks = [&](Stage stage) {
        return stage.split(s.j, task, row, parameters.task_rows, TailStrategy::GuardWithIf).parallel(s.h).parallel(task);
    };
    // Each channel has a place of its own, which Halide cannot tell.
    tasks(s.out.update(0)).reorder(s.channel, row, task, s.h).vectorize(s.channel, lanes, TailStrategy::GuardWithIf);
    tasks(s.out.update(1))
        .allow_race_conditions()
        .reorder(s.odd, s.byte, s.group, row, task, s.h)
        .vectorize(s.odd)
        .vectorize(s.byte, lanes, TailStrategy::GuardWithIf);
}

}  // namespace attune
