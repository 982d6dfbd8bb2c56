// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/math/accumulator.h"
#include "schedules/backward_rows/backward_rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { root, rows };

class BackwardRows : public Halide::Generator<BackwardRows> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};

    Input<Buffer<void, 4>> attended{"attended"}, grad_out{"grad_out"};  // (d, i, h, b)
    Input<Buffer<void, 3>> lse{"lse"}, grad_lse{"grad_lse"};
    Input<bool> has_grad_lse{"has_grad_lse"};

    void configure() {
        const Type sums = attune::accumulator_of(dtype);
        attended.set_type(dtype), grad_out.set_type(dtype);
        lse.set_type(sums), grad_lse.set_type(sums);
        rows = add_output<Func>("rows", {sums, sums}, 3);  // {row_lse, row_delta}
    }
    void generate() {
        stages = attune::backward_rows_stages({attended, grad_out, lse, grad_lse, has_grad_lse, attended.dim(0).extent()},
                                              attune::accumulator_of(dtype));
        *rows = stages.out;
    }
    void schedule() {
        for (auto *in : {&attended, &grad_out})
            for (int n = 0; n < 4; n++) in->dim(n).set_min(0);
        for (auto *in : {&lse, &grad_lse}) {
            for (int n = 0; n < 3; n++) in->dim(n).set_min(0);
            in->dim(0).set_stride(Expr());
        }
        auto outputs = static_cast<Func>(*rows).output_buffers();
        for (int n = 0; n < 3; n++) outputs[0].dim(n).set_min(0);
        if (schedule_name == Schedule::root)
            attune::schedule_root(stages, *rows);
        else
            attune::schedule_rows(stages, *rows, target);
    }

private:
    Output<Func> *rows = nullptr;
    attune::BackwardRowsStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(BackwardRows, backward_rows)
