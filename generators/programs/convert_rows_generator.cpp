// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/convert_rows/convert_rows_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { rows };

class ConvertRows : public Halide::Generator<ConvertRows> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::rows, {{"rows", Schedule::rows}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};  // of the caller's rows; the kernel's are f32
    GeneratorParam<bool> to_kernel{"to_kernel", true};

    Input<Buffer<void, 4>> x{"x"};  // (d, i, r, h)
    Input<Buffer<float, 2>> factor{"factor"};
    Input<bool> by_nibbles{"by_nibbles"};
    Output<Buffer<void, 4>> out{"out"};

    void configure() {
        if (to_kernel)
            x.set_type(dtype), out.set_type(Float(32));
        else
            x.set_type(Float(32)), out.set_type(dtype);
    }
    void generate() { out = attune::convert_rows_stages({x, factor, by_nibbles}, out.types()[0], to_kernel); }
    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0), out.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) factor.dim(n).set_min(0);
        factor.dim(0).set_stride(Expr());  // 0 where all channels have one
        attune::schedule_rows(out, by_nibbles, target);
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(ConvertRows, convert_rows)
