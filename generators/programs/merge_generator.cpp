// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/merge/merge_schedules.h"

namespace {
enum class Schedule { root, rows };

class Merge : public Halide::Generator<Merge> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> task_rows{"task_rows", 16, 1, 1 << 20};

    // Four parts, those from `count` on without effect.
    Input<Buffer<void, 4>> out_0{"out_0"}, out_1{"out_1"}, out_2{"out_2"}, out_3{"out_3"};  // (d, i, h, b)
    Input<Buffer<void, 4>> lses{"lses"};                                                    // (i, h, b, part)
    Input<Buffer<void, 4>> sum_before{"sum_before"};                                        // (d, i, h, b), unless first is 0
    Input<int32_t> first{"first"}, count{"count"};
    // Either `out` or `sum` is wanted: the other one has no elements.
    Output<Buffer<void, 4>> out{"out"}, sum{"sum"};  // (d, i, h, b)
    Output<Buffer<void, 3>> lse{"lse"};              // (i, h, b)

    void configure() {
        const Halide::Type stored = dtype, of_sums = stored == Halide::Float(64) ? stored : Halide::Float(32);
        for (auto *part : {&out_0, &out_1, &out_2, &out_3}) part->set_type(stored);
        lses.set_type(of_sums), sum_before.set_type(of_sums);
        out.set_type(stored), sum.set_type(of_sums), lse.set_type(of_sums);
    }

    void generate() {
        const attune::MergeInputs in{{out_0, out_1, out_2, out_3}, lses, sum_before, first, count, lses.dim(3).extent()};
        stages = attune::merge_stages(in, lses.dim(0).extent(), dtype);
        out = stages.out, sum = stages.sum, lse = stages.lse;
    }

    void schedule() {
        for (auto *part : {&out_0, &out_1, &out_2, &out_3, &lses, &sum_before})
            for (int n = 0; n < 4; n++) part->dim(n).set_min(0);
        for (auto *result : {&out, &sum})
            for (int n = 0; n < 4; n++) result->dim(n).set_min(0);
        lse.dim(0).set_stride(Halide::Expr());
        for (int n = 0; n < 3; n++) lse.dim(n).set_bounds(0, lses.dim(n).extent());
        const Halide::Expr begins = first == 0;
        const attune::MergeOutputs to{out, sum, lse, begins, begins && count == 2 && lses.dim(3).extent() == 2};
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, to, {task_rows}, target);
        else
            attune::schedule_root(stages, to);
    }

private:
    attune::MergeStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Merge, merge)
