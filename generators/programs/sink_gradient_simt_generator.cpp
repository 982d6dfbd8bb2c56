// SPDX-License-Identifier: MIT
// Wiring only: the gradient of sinks on a device.
#include "schedules/backward_rows/simt_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { simt };

class SinkGradientSimt : public Halide::Generator<SinkGradientSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> lanes{"lanes", 256, 32, 1024};

    Input<Buffer<float, 1>> sinks{"sinks"};
    Input<Buffer<float, 3>> row_lse{"row_lse"}, row_delta{"row_delta"};  // (i, h, b)
    Output<Buffer<float, 1>> grad_sinks{"grad_sinks"};

    void generate() {
        stages = attune::sink_gradient_stages({sinks, row_lse, row_delta, row_lse.dim(0).extent(), row_lse.dim(2).extent()});
        grad_sinks = stages.out;
    }
    void schedule() {
        for (auto *in : {&row_lse, &row_delta})
            for (int n = 0; n < 3; n++) in->dim(n).set_min(0);
        sinks.dim(0).set_min(0).set_stride(Expr());
        grad_sinks.dim(0).set_min(0).set_stride(Expr());
        attune::schedule_sink_gradient_simt(stages, grad_sinks, lanes);
    }

private:
    attune::SinkGradientStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(SinkGradientSimt, sink_gradient_simt)
