// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/max_magnitude/max_magnitude_schedules.h"

namespace {
enum class Schedule { root, rows };

class MaxMagnitude : public Halide::Generator<MaxMagnitude> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};  // of at most 32 bits
    GeneratorParam<int> task_rows{"task_rows", 1, 1, 1 << 20};
    GeneratorParam<int> block{"block", 16, 1, 1 << 20};

    Input<Buffer<void, 4>> x{"x"};        // (d, s, h, b)
    Output<Buffer<float, 1>> out{"out"};  // (b)

    void configure() { x.set_type(dtype); }

    void generate() {
        stages = attune::max_magnitude_stages({x, x.dim(0).extent(), x.dim(1).extent(), x.dim(2).extent()}, block, task_rows);
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        out.dim(0).set_min(0);
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, {task_rows, block}, target);
        else
            attune::schedule_root(stages, out);
    }

private:
    attune::MaxMagnitudeStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MaxMagnitude, max_magnitude)
