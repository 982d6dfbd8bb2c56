// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "lowering/lower.h"
#include "schedules/head_mean/head_mean_schedules.h"

namespace {
enum class Schedule { root, rows };

class HeadMean : public Halide::Generator<HeadMean> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> task_keys{"task_keys", 4096, 1, 1 << 20};
    GeneratorParam<int> block{"block", 32, 1, 1 << 20};

    Input<Buffer<void, 4>> x{"x"};       // (j, h, i, b)
    Output<Buffer<void, 3>> out{"out"};  // (j, i, b)

    void configure() { x.set_type(dtype), out.set_type(dtype); }

    void generate() {
        stages = attune::head_mean_stages({x, x.dim(0).extent(), x.dim(1).extent()}, dtype);
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        for (int n = 0; n < 3; n++) out.dim(n).set_min(0);
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, {task_keys, block}, target);
        else
            attune::schedule_root(stages, out);
        attune::lower(get_pipeline(), {.masked_tail_loads = {x}}, target);
    }

private:
    attune::HeadMeanStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(HeadMean, head_mean)
