// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/backward_rows/backward_rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { root };

class SinkGradient : public Halide::Generator<SinkGradient> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};  // of the rows

    Input<Buffer<float, 1>> sinks{"sinks"};
    Input<Buffer<void, 3>> row_lse{"row_lse"}, row_delta{"row_delta"};  // (i, h, b)
    Output<Buffer<float, 1>> grad_sinks{"grad_sinks"};

    void configure() { row_lse.set_type(dtype), row_delta.set_type(dtype); }
    void generate() {
        stages = attune::sink_gradient_stages({sinks, row_lse, row_delta, row_lse.dim(0).extent(), row_lse.dim(2).extent()});
        grad_sinks = stages.out;
    }
    void schedule() {
        for (auto *in : {&row_lse, &row_delta})
            for (int n = 0; n < 3; n++) in->dim(n).set_min(0);
        sinks.dim(0).set_min(0).set_stride(Expr());
        grad_sinks.dim(0).set_min(0).set_stride(Expr());
        attune::schedule_root(stages, grad_sinks);
    }

private:
    attune::SinkGradientStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(SinkGradient, sink_gradient)
