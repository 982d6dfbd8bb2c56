// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/masked_softmax_backward/masked_softmax_backward_schedules.h"

namespace {
enum class Schedule { root, rows };

class MaskedSoftmaxBackward : public Halide::Generator<MaskedSoftmaxBackward> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> task_rows{"task_rows", 1, 1, 1 << 20};
    GeneratorParam<int> block{"block", 16, 1, 1 << 20};

    Input<Buffer<void, 4>> weights{"weights"}, grad_weights{"grad_weights"};  // (j, i, h, b)
    Input<Buffer<int32_t, 2>> lengths{"lengths"};                             // (i, b)
    Output<Buffer<void, 4>> grad_scores{"grad_scores"};                       // (j, i, h, b)

    void configure() { weights.set_type(dtype), grad_weights.set_type(dtype), grad_scores.set_type(dtype); }

    void generate() {
        stages = attune::masked_softmax_backward_stages({weights, grad_weights, lengths, weights.dim(0).extent()}, block);
        grad_scores = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) weights.dim(n).set_min(0), grad_weights.dim(n).set_min(0), grad_scores.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) lengths.dim(n).set_min(0);
        lengths.dim(0).set_stride(Halide::Expr());
        grad_weights.dim(0).set_extent(weights.dim(0).extent());
        grad_scores.dim(0).set_extent(weights.dim(0).extent());
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, grad_scores, {task_rows, block}, target);
        else
            attune::schedule_root(stages, grad_scores);
    }

private:
    attune::MaskedSoftmaxBackwardStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MaskedSoftmaxBackward, masked_softmax_backward)
