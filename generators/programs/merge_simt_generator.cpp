// SPDX-License-Identifier: MIT
// Wiring only: merge of attentions in the form of merge_simt_stages.h.
#include "generators/math/bf16_bits.h"
#include "schedules/merge/simt_schedules.h"
#include <array>

namespace {
using namespace Halide;
enum class Schedule { simt };

class MergeSimt : public Halide::Generator<MergeSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> block_rows{"block_rows", 8, 1, 32};

    void configure() {
        for (std::size_t n = 0; n < outs.size(); n++)
            outs[n] = add_input<Buffer<>>("out_" + std::to_string(n), held(), 4);  // (d, i, h, b)
        for (std::size_t n = 0; n < lses.size(); n++)
            lses[n] = add_input<Buffer<>>("lse_" + std::to_string(n), Float(32), 3);  // (i, h, b)
        count = add_input<int32_t>("count");
        out = add_output<Func>("out", held(), 4);
        lse = add_output<Func>("lse", Float(32), 3);
    }

    void generate() {
        attune::MergeSimtInputs in;
        for (std::size_t n = 0; n < outs.size(); n++) {
            in.out[n] = Func("part" + std::to_string(n)), in.lse[n] = *lses[n];
            in.out[n](_) = attune::widened((*outs[n])(_));
        }
        in.count = *count;
        stages = attune::merge_simt_stages(in, [this](const Expr &x) { return attune::stored(held(), x); });
        *out = stages.out, *lse = stages.lse;
    }

    void schedule() {
        for (std::size_t n = 0; n < outs.size(); n++) {
            for (int m = 0; m < 4; m++) outs[n]->dim(m).set_min(0);
            for (int m = 0; m < 3; m++) lses[n]->dim(m).set_min(0);
            lses[n]->dim(0).set_stride(Expr());
        }
        auto rows = static_cast<Func>(*out).output_buffer(), of_lse = static_cast<Func>(*lse).output_buffer();
        for (int m = 0; m < 4; m++) rows.dim(m).set_min(0);
        for (int m = 0; m < 3; m++) of_lse.dim(m).set_min(0);
        of_lse.dim(0).set_stride(Expr());
        attune::schedule_merge_simt(stages, *out, *lse, block_rows);
    }

private:
    std::array<Input<Buffer<>> *, attune::merged_on_device> outs{}, lses{};
    Input<int32_t> *count = nullptr;
    Output<Func> *out = nullptr, *lse = nullptr;
    attune::MergeSimtStages stages;

    Type held() const { return attune::held_type(dtype); }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MergeSimt, merge_simt)
