// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/math/accumulator.h"
#include "schedules/backward_rows/backward_rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { root };

class CaptureSum : public Halide::Generator<CaptureSum> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};  // of the gradient
    GeneratorParam<bool> of_f64{"of_f64", false};    // the sums are f64 whatever the gradient is

    Input<Buffer<void, 2>> sums{"sums"};  // (j, y)
    Input<bool> sums_keys{"sums_keys"};
    Output<Buffer<void, 2>> grad_capture{"grad_capture"};

    void configure() {
        sums.set_type(of_f64 ? Float(64) : attune::accumulator_of(dtype));
        grad_capture.set_type(dtype);
    }
    void generate() {
        stages = attune::capture_sum_stages(sums, sums.dim(0).extent(), sums_keys, dtype);
        grad_capture = stages.out;
    }
    void schedule() {
        for (int n = 0; n < 2; n++) sums.dim(n).set_min(0), grad_capture.dim(n).set_min(0);
        sums.dim(0).set_stride(Expr()), grad_capture.dim(0).set_stride(Expr());
        attune::schedule_root(stages, grad_capture);
    }

private:
    attune::CaptureSumStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(CaptureSum, capture_sum)
