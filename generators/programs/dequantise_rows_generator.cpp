// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/dequantise_rows/dequantise_rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { rows };

class DequantiseRows : public Halide::Generator<DequantiseRows> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::rows, {{"rows", Schedule::rows}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> task_rows{"task_rows", 64, 1, 1 << 20};

    Input<Buffer<uint8_t, 3>> bytes{"bytes"};  // (c, row, h)
    Input<Buffer<float, 3>> scale_f32{"scale_f32"};
    Input<Buffer<void, 3>> scale_f16{"scale_f16"}, minimum_f16{"minimum_f16"};  // (g, row, h)
    Input<bool> scale_is_f16{"scale_is_f16"};
    Input<Buffer<float, 2>> static_scale{"static_scale"};  // (d, h)
    Input<bool> has_static_scale{"has_static_scale"};
    Input<Buffer<int32_t, 1>> row_shift{"row_shift"};
    Input<int32_t> channels_of_int8{"channels_of_int8"}, groups_of_int4{"groups_of_int4"},
        channels_of_group{"channels_of_group"};
    Output<Buffer<void, 3>> out{"out"};  // (d, j, h)

    void configure() {
        for (auto *in : {&scale_f16, &minimum_f16}) in->set_type(Float(16));
        out.set_type(dtype);
    }
    void generate() {
        stages = attune::dequantise_rows_stages({bytes, scale_f32, scale_f16, minimum_f16, scale_is_f16, static_scale,
                                                 has_static_scale, row_shift, bytes.dim(1).extent(), channels_of_int8,
                                                 groups_of_int4, channels_of_group},
                                                dtype);
        out = stages.out;
    }
    void schedule() {
        for (int n = 0; n < 3; n++) {
            bytes.dim(n).set_min(0), scale_f32.dim(n).set_min(0);
            scale_f16.dim(n).set_min(0), minimum_f16.dim(n).set_min(0), out.dim(n).set_min(0);
        }
        for (int n = 0; n < 2; n++) static_scale.dim(n).set_min(0);
        row_shift.dim(0).set_min(0);
        static_scale.dim(0).set_stride(Expr());  // 0 of a scale of the tensor
        attune::schedule_rows(stages, {task_rows}, target);
    }

private:
    attune::DequantiseRowsStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(DequantiseRows, dequantise_rows)
