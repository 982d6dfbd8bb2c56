// SPDX-License-Identifier: MIT
// Wiring only: masked softmax in the form of masked_softmax_simt_stages.h. Inputs differ from masked_softmax_generator.cpp,
// because no argument may be computed or copied from host memory here: lengths are the caller's, or none.
#include "schedules/masked_softmax/simt_schedules.h"

namespace {
enum class Schedule { simt };

class MaskedSoftmaxSimt : public Halide::Generator<MaskedSoftmaxSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> lanes{"lanes", 32, 32, 1024};
    GeneratorParam<int> lane_keys{"lane_keys", 4, 1, 32};  // keys that a lane reads together
    GeneratorParam<int> block_rows{"block_rows", 1, 1, 32};

    Input<Buffer<float, 4>> scores{"scores"};  // (j, i, h, b)
    Input<bool> has_lengths{"has_lengths"};
    Input<Buffer<int32_t, 2>> lengths{"lengths"};  // (i, b)
    Input<bool> seed{"seed"};

    void configure() { out = add_output<Func>("out", Halide::Float(32), 4); }

    void generate() {
        attune::MaskedSoftmaxInputs in{scores, Func("length_of"), scores.dim(0).extent(), seed};
        Var i("i"), b("b");
        in.lengths(i, b) = select(has_lengths, lengths(i, b), in.keys);
        stages = attune::softmax_simt_stages(in, attune::softmax_lanes(lanes, lane_keys, target));
        *out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) scores.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) lengths.dim(n).set_min(0);
        lengths.dim(0).set_stride(Halide::Expr());
        auto buffer = static_cast<Func>(*out).output_buffer();
        for (int n = 0; n < 4; n++) buffer.dim(n).set_min(0);
        attune::schedule_softmax_simt(stages, *out, attune::softmax_lanes(lanes, lane_keys, target), block_rows);
    }

private:
    Output<Func> *out = nullptr;
    attune::SoftmaxSimtStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MaskedSoftmaxSimt, masked_softmax_simt)
