// SPDX-License-Identifier: MIT
// Wiring only: the last sum of a gradient on a device.
#include "schedules/backward_rows/simt_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { simt };

class CaptureSumSimt : public Halide::Generator<CaptureSumSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> lanes{"lanes", 32, 32, 1024};

    Input<Buffer<float, 2>> sums{"sums"};  // (j, y)
    Input<bool> sums_keys{"sums_keys"};
    Output<Buffer<float, 2>> grad_capture{"grad_capture"};

    void generate() {
        stages = attune::capture_sum_stages(sums, sums.dim(0).extent(), sums_keys, Float(32));
        grad_capture = stages.out;
    }
    void schedule() {
        for (int n = 0; n < 2; n++) sums.dim(n).set_min(0), grad_capture.dim(n).set_min(0);
        sums.dim(0).set_stride(Expr()), grad_capture.dim(0).set_stride(Expr());
        attune::schedule_capture_sum_simt(stages, grad_capture, lanes);
    }

private:
    attune::CaptureSumStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(CaptureSumSimt, capture_sum_simt)
