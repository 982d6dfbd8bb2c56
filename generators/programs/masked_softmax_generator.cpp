// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "lowering/instructions/powers.h"
#include "schedules/masked_softmax/masked_softmax_schedules.h"

namespace {
enum class Schedule { root, rows };

class MaskedSoftmax : public Halide::Generator<MaskedSoftmax> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> task_rows{"task_rows", 1, 1, 1 << 20};
    GeneratorParam<int> block{"block", 16, 1, 1 << 20};
    GeneratorParam<int> prefetch_rows{"prefetch_rows", 0, 0, 1 << 10};
    GeneratorParam<int> prefetch_out{"prefetch_out", 0, 0, 1};

    Input<Buffer<void, 4>> scores{"scores"};       // (j, i, h, b)
    Input<Buffer<int32_t, 2>> lengths{"lengths"};  // (i, b)
    Input<bool> seed{"seed"};
    Output<Buffer<void, 4>> out{"out"};  // (j, i, h, b)

    void configure() { scores.set_type(dtype), out.set_type(dtype); }

    void generate() {
        attune::MaskedSoftmaxInputs in{scores, lengths, scores.dim(0).extent(), seed};
        if (schedule_name == Schedule::rows) in.powers = attune::power_instructions(target);
        stages = attune::masked_softmax_stages(in, block);
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) scores.dim(n).set_min(0), out.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) lengths.dim(n).set_min(0);
        lengths.dim(0).set_stride(Halide::Expr());
        out.dim(0).set_extent(scores.dim(0).extent());
        attune::Passes passes;
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, passes, scores, {task_rows, block, prefetch_rows, prefetch_out != 0}, target);
        else
            attune::schedule_root(stages, out);
        attune::lower(get_pipeline(), passes, target);
    }

private:
    attune::MaskedSoftmaxStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MaskedSoftmax, masked_softmax)
