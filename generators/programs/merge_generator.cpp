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

    Input<Buffer<void, 4>> out_a{"out_a"};  // (d, i, h, b)
    Input<Buffer<void, 3>> lse_a{"lse_a"};  // (i, h, b)
    Input<Buffer<void, 4>> out_b{"out_b"};
    Input<Buffer<void, 3>> lse_b{"lse_b"};
    Output<Buffer<void, 4>> out{"out"};  // (d, i, h, b)
    Output<Buffer<void, 3>> lse{"lse"};  // (i, h, b)

    void configure() {
        const Halide::Type stored = dtype, sum = stored == Halide::Float(64) ? stored : Halide::Float(32);
        out_a.set_type(stored), out_b.set_type(stored), out.set_type(stored);
        lse_a.set_type(sum), lse_b.set_type(sum), lse.set_type(sum);
    }

    void generate() {
        stages = attune::merge_stages({out_a, lse_a}, {out_b, lse_b}, out_a.dim(1).extent());
        out = stages.out, lse = stages.lse;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) out_a.dim(n).set_min(0), out_b.dim(n).set_min(0), out.dim(n).set_min(0);
        for (auto *rows : {&lse_a, &lse_b}) {
            rows->dim(0).set_stride(Halide::Expr());
            for (int n = 0; n < 3; n++) rows->dim(n).set_min(0);
        }
        lse.dim(0).set_stride(Halide::Expr());
        for (int n = 0; n < 3; n++) lse.dim(n).set_bounds(0, out.dim(n + 1).extent());
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, lse, {task_rows}, target);
        else
            attune::schedule_root(stages, out, lse);
    }

private:
    attune::MergeStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Merge, merge)
