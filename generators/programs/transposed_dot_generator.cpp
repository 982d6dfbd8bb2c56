// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/math/accumulator.h"
#include "schedules/transposed_dot/transposed_dot_schedules.h"

namespace {
enum class Schedule { root, panels };

class TransposedDot : public Halide::Generator<TransposedDot> {
public:
    GeneratorParam<Schedule> schedule_name{
        "schedule", Schedule::root, {{"root", Schedule::root}, {"panels", Schedule::panels}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> depth_block{"depth_block", 256, 1, 1 << 20};
    GeneratorParam<int> task_rows{"task_rows", 0, 0, 1 << 20};
    GeneratorParam<int> tile_rows{"tile_rows", 0, 0, 64};
    GeneratorParam<int> tile_columns{"tile_columns", 0, 0, 1024};

    Input<Buffer<void, 4>> a{"a"}, x{"x"};  // (m, k, h, b), (n, k, h, b)
    Output<Buffer<void, 4>> out{"out"};     // (n, m, h, b)

    void configure() { a.set_type(dtype), x.set_type(dtype), out.set_type(dtype); }

    void generate() {
        const Halide::Type sums = attune::accumulator_of(dtype);
        constexpr int line_bytes = 64;
        stages = attune::transposed_dot_stages({a, x, a.dim(0).extent(), x.dim(0).extent(), a.dim(1).extent()},
                                               {sums, depth_block, line_bytes / sums.bytes()});
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) a.dim(n).set_min(0), x.dim(n).set_min(0), out.dim(n).set_min(0);
        if (schedule_name == Schedule::panels)
            attune::schedule_panels(stages, out, {depth_block, task_rows, tile_rows, tile_columns, 0, 1}, target);
        else
            attune::schedule_root(stages, out);
    }

private:
    attune::TransposedDotStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(TransposedDot, transposed_dot)
