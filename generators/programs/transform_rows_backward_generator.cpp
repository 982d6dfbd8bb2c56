// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/math/accumulator.h"
#include "schedules/transform_rows/rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { rows };

class TransformRowsBackward : public Halide::Generator<TransformRowsBackward> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::rows, {{"rows", Schedule::rows}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> task_rows{"task_rows", 8, 1, 1 << 20};

    Input<Buffer<void, 4>> x{"x"}, grad_out{"grad_out"};         // (d, t, h, b)
    Input<Buffer<int32_t, 2>> positions{"positions"};            // (t, b)
    Input<Buffer<float, 2>> cos{"cos"}, sin{"sin"};              // (k, position)
    Input<Buffer<void, 2>> norm_weight{"norm_weight"};           // (d, h)
    Input<Buffer<float, 2>> norm_weight_f32{"norm_weight_f32"};  // (d, h)
    Input<bool> has_norm{"has_norm"}, weight_is_f32{"weight_is_f32"};
    Input<double> norm_eps{"norm_eps"}, hadamard_factor{"hadamard_factor"};
    Input<int32_t> halves{"halves"}, neighbours{"neighbours"}, first_rotated{"first_rotated"};
    Input<int32_t> butterflies{"butterflies"}, half_block{"half_block"};
    Input<int32_t> heads_of_weight{"heads_of_weight"};
    Output<Buffer<void, 4>> grad_x{"grad_x"};            // (d, t, h, b)
    Output<Buffer<void, 2>> grad_weight{"grad_weight"};  // (d, h), or without elements

    void configure() {
        x.set_type(dtype), grad_out.set_type(dtype), norm_weight.set_type(dtype), grad_x.set_type(dtype);
        grad_weight.set_type(attune::accumulator_of(dtype));
    }

    void generate() {
        attune::RowSteps steps;
        steps.has_norm = has_norm, steps.eps = norm_eps, steps.weight_is_f32 = weight_is_f32;
        steps.weight = norm_weight, steps.weight_f32 = norm_weight_f32;
        steps.cos = cos, steps.sin = sin, steps.positions = positions, steps.table_positions = cos.dim(1).extent();
        steps.halves = halves, steps.neighbours = neighbours, steps.first_rotated = first_rotated;
        steps.butterflies = butterflies, steps.half_block = half_block, steps.hadamard_factor = hadamard_factor;
        stages = attune::transform_rows_backward_stages(
            {x, grad_out, x.dim(0).extent(), x.dim(1).extent(), x.dim(2).extent(), x.dim(3).extent(), heads_of_weight}, steps);
        grad_x = stages.grad_x, grad_weight = stages.grad_weight;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0), grad_out.dim(n).set_min(0), grad_x.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) {
            for (auto *in : {&cos, &sin, &norm_weight_f32}) in->dim(n).set_min(0);
            positions.dim(n).set_min(0), norm_weight.dim(n).set_min(0), grad_weight.dim(n).set_min(0);
        }
        positions.dim(0).set_stride(Expr());
        norm_weight.dim(0).set_stride(Expr()), norm_weight_f32.dim(0).set_stride(Expr());
        attune::schedule_rows(stages, grad_x, grad_weight, {task_rows}, target);
    }

private:
    attune::TransformRowsBackwardStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(TransformRowsBackward, transform_rows_backward)
