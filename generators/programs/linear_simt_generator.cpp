// SPDX-License-Identifier: MIT
// Wiring only: products with a matrix in the form of linear_simt_stages.h. Inputs differ from linear_generator.cpp, because no
// argument may be copied from host memory here: a bias is the caller's, or none.
#include "generators/math/bf16_bits.h"
#include "lowering/lower.h"
#include "schedules/linear/simt_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { simt };

class LinearSimt : public Halide::Generator<LinearSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> tile_rows{"tile_rows", 128, 1, 256};
    GeneratorParam<int> tile_columns{"tile_columns", 128, 1, 256};
    GeneratorParam<int> tile_depth{"tile_depth", 16, 1, 64};
    GeneratorParam<int> lane_rows{"lane_rows", 8, 1, 16};
    GeneratorParam<int> lane_columns{"lane_columns", 8, 1, 16};

    Input<Buffer<void, 4>> x{"x"};            // (k, m, h, b)
    Input<Buffer<void, 2>> weight{"weight"};  // (k, n)
    Input<bool> has_bias{"has_bias"};
    Input<Buffer<void, 1>> bias{"bias"};  // (n), any stride

    void configure() {
        x.set_type(held()), weight.set_type(held()), bias.set_type(held());
        out = add_output<Func>("out", held(), 4);
    }

    void generate() {
        attune::LinearInputs in;
        Var n("n");
        in.x = Func("x_f32"), in.bias = Func("bias_f32");
        in.x(_) = attune::widened(x(_));
        in.bias(n) = select(has_bias, attune::widened(bias(n)), 0.0f);
        in.weight = [this](Expr n, Expr k, Expr, Expr) { return attune::widened(weight(k, n)); };
        in.rows = x.dim(1).extent(), in.depth = x.dim(0).extent(), in.columns = weight.dim(1).extent();
        stages = attune::linear_simt_stages(in, tile_depth, [this](const Expr &x) { return attune::stored(held(), x); });
        *out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) weight.dim(n).set_min(0);
        bias.dim(0).set_min(0).set_stride(Expr());
        auto buffer = static_cast<Func>(*out).output_buffer();
        for (int n = 0; n < 4; n++) buffer.dim(n).set_min(0);
        attune::schedule_linear_simt(stages, *out, {tile_rows, tile_columns, tile_depth, lane_rows, lane_columns});
        attune::lower(get_pipeline(), {.thread_local_registers = true}, target);
    }

private:
    Output<Func> *out = nullptr;
    attune::LinearSimtStages stages;

    Type held() const { return attune::held_type(dtype); }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(LinearSimt, linear_simt)
