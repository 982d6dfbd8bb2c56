// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "schedules/dropout_mask/dropout_mask_schedules.h"

namespace {
enum class Schedule { root, rows };

class DropoutMask : public Halide::Generator<DropoutMask> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::root, {{"root", Schedule::root}, {"rows", Schedule::rows}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::UInt(8)};  // of a bool in memory, the only choice
    GeneratorParam<int> task_rows{"task_rows", 1, 1, 1 << 20};

    Input<uint32_t> seed_low{"seed_low"}, seed_high{"seed_high"}, offset{"offset"}, first_query{"first_query"},
        first_key{"first_key"}, first_head{"first_head"}, heads{"heads"}, threshold{"threshold"};
    Output<Buffer<uint8_t, 4>> out{"out"};  // (j, i, h, b)

    void generate() {
        stages =
            attune::dropout_mask_stages({seed_low, seed_high, offset, first_query, first_key, first_head, heads, threshold});
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) out.dim(n).set_min(0);
        out.dim(0).set_stride(Halide::Expr());
        if (schedule_name == Schedule::rows)
            attune::schedule_rows(stages, out, {task_rows}, out.dim(0).stride() == 1, target);
        else
            attune::schedule_root(stages, out);
    }

private:
    attune::DropoutMaskStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(DropoutMask, dropout_mask)
