// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "lowering/lower.h"
#include "schedules/weight_sums/weight_sums_schedules.h"

namespace {
enum class Schedule { root, rows };

class WeightSums : public Halide::Generator<WeightSums> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> task_keys{"task_keys", 4096, 1, 1 << 20};
    GeneratorParam<int> block{"block", 32, 1, 1 << 20};

    Input<Buffer<void, 4>> x{"x"};            // (j, i, g, h)
    Input<Buffer<void, 2>> before{"before"};  // (j, h)
    Output<Buffer<void, 2>> out{"out"};       // (j, h)

    void configure() { x.set_type(dtype), before.set_type(dtype), out.set_type(dtype); }

    void generate() {
        stages = attune::weight_sums_stages({x, before, x.dim(0).extent(), x.dim(1).extent(), x.dim(2).extent()});
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) before.dim(n).set_min(0), out.dim(n).set_min(0);
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, {task_keys, block}, target);
        else
            attune::schedule_root(stages, out);
        attune::lower(get_pipeline(), {.masked_tail_loads = {x, before}}, target);
    }

private:
    attune::WeightSumsStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(WeightSums, weight_sums)
