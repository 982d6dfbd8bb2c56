// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs of the steps on rows: stored in their own type, or quantised.
#include "schedules/transform_rows/rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { rows };

class Rows : public Halide::Generator<Rows> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::rows, {{"rows", Schedule::rows}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<bool> quantised{"quantised", false};
    GeneratorParam<int> task_rows{"task_rows", 8, 1, 1 << 20};

    Input<Buffer<void, 4>> x{"x"};                               // (d, t, h, b)
    Input<Buffer<int32_t, 3>> places{"places"};                  // (2, t, b)
    Input<Buffer<int32_t, 2>> positions{"positions"};            // (t, b)
    Input<Buffer<float, 2>> cos{"cos"}, sin{"sin"};              // (k, position)
    Input<Buffer<void, 2>> norm_weight{"norm_weight"};           // (d, h)
    Input<Buffer<float, 2>> norm_weight_f32{"norm_weight_f32"};  // (d, h)
    Input<bool> has_norm{"has_norm"}, weight_is_f32{"weight_is_f32"};
    Input<double> norm_eps{"norm_eps"}, hadamard_factor{"hadamard_factor"};
    Input<int32_t> halves{"halves"}, neighbours{"neighbours"}, first_rotated{"first_rotated"};
    Input<int32_t> butterflies{"butterflies"}, half_block{"half_block"};
    Input<int32_t> out_rows{"out_rows"}, out_batch{"out_batch"};  // extents of outputs

    void configure() {
        x.set_type(dtype), norm_weight.set_type(dtype);
        if (!quantised) {
            out = add_output<Func>("out", static_cast<Type>(dtype), 4);  // (d, i, h, p)
            return;
        }
        static_scale = add_input<Buffer<>>("static_scale", Float(32), 2);  // (d, h)
        has_static_scale = add_input<bool>("has_static_scale"), scale_is_f16 = add_input<bool>("scale_is_f16");
        channels_of_int8 = add_input<int32_t>("channels_of_int8"), groups_of_int4 = add_input<int32_t>("groups_of_int4");
        channels_of_group = add_input<int32_t>("channels_of_group");
        int8 = add_output<Func>("int8", Int(8), 4), int4 = add_output<Func>("int4", UInt(8), 4);  // (d, i, h, p)
        scale_f32 = add_output<Func>("scale_f32", Float(32), 4);                                  // (g, i, h, p)
        scale_f16 = add_output<Func>("scale_f16", Float(16), 4), minimum_f16 = add_output<Func>("minimum_f16", Float(16), 4);
    }

    void generate() {
        attune::RowSteps steps;
        steps.has_norm = has_norm, steps.eps = norm_eps, steps.weight_is_f32 = weight_is_f32;
        steps.weight = norm_weight, steps.weight_f32 = norm_weight_f32;
        steps.cos = cos, steps.sin = sin, steps.positions = positions, steps.table_positions = cos.dim(1).extent();
        steps.halves = halves, steps.neighbours = neighbours, steps.first_rotated = first_rotated;
        steps.butterflies = butterflies, steps.half_block = half_block, steps.hadamard_factor = hadamard_factor;
        const attune::TransformRowsInputs in{
            x, places, x.dim(0).extent(), x.dim(1).extent(), x.dim(2).extent(), x.dim(3).extent()};
        if (!quantised) {
            plain = attune::transform_rows_stages(in, steps, out_rows, out_batch);
            *out = plain.out.out;
            return;
        }
        const attune::Quantisation q{*channels_of_int8, *groups_of_int4,   *channels_of_group,
                                     *static_scale,     *has_static_scale, *scale_is_f16};
        quantising = attune::quantise_rows_stages(in, steps, q, out_rows, out_batch);
        *int8 = quantising.int8.out, *int4 = quantising.int4.out, *scale_f32 = quantising.scale_f32.out;
        *scale_f16 = quantising.scale_f16.out, *minimum_f16 = quantising.minimum_f16.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        for (int n = 0; n < 3; n++) places.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) {
            for (auto *in : {&cos, &sin, &norm_weight_f32}) in->dim(n).set_min(0);
            positions.dim(n).set_min(0), norm_weight.dim(n).set_min(0);
            if (quantised) static_scale->dim(n).set_min(0);
        }
        positions.dim(0).set_stride(Expr());
        norm_weight.dim(0).set_stride(Expr()), norm_weight_f32.dim(0).set_stride(Expr());
        if (quantised) static_scale->dim(0).set_stride(Expr());
        for (auto *o : {out, int8, int4, scale_f32, scale_f16, minimum_f16})
            if (o)
                for (int n = 0; n < 4; n++) static_cast<Func>(*o).output_buffer().dim(n).set_min(0);
        if (quantised)
            attune::schedule_rows(quantising, {task_rows}, target);
        else
            attune::schedule_rows(plain, {task_rows}, target);
    }

private:
    Input<Buffer<>> *static_scale = nullptr;
    Input<bool> *has_static_scale = nullptr, *scale_is_f16 = nullptr;
    Input<int32_t> *channels_of_int8 = nullptr, *groups_of_int4 = nullptr, *channels_of_group = nullptr;
    Output<Func> *out = nullptr, *int8 = nullptr, *int4 = nullptr, *scale_f32 = nullptr, *scale_f16 = nullptr,
                 *minimum_f16 = nullptr;
    attune::TransformRowsStages plain;
    attune::QuantiseRowsStages quantising;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Rows, rows)
