// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "lowering/lower.h"
#include "schedules/linear/pack_schedules.h"

namespace {
enum class Schedule { root, blocks };

class PackLinearWeight : public Halide::Generator<PackLinearWeight> {
public:
    GeneratorParam<Schedule> schedule_name{
        "schedule", Schedule::root, {{"root", Schedule::root}, {"blocks", Schedule::blocks}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> block{"block", 0, 0, 64};

    Input<Buffer<void, 2>> weight{"weight"};   // (k, n)
    Output<Buffer<void, 3>> packed{"packed"};  // (n, k, p), of words

    void configure() {
        weight.set_type(dtype);
        packed.set_type(attune::packed_word(attune::PackedPanels{dtype}));
    }

    void generate() {
        stages =
            attune::pack_stages(weight, attune::PackedPanels{dtype}, weight.dim(1).extent(), weight.dim(0).extent(), block);
        packed = stages.packed;
    }

    void schedule() {
        for (int n = 0; n < 2; n++) weight.dim(n).set_min(0);
        for (int n = 0; n < 3; n++) packed.dim(n).set_min(0);
        packed.dim(0).set_extent(attune::PackedPanels::columns);
        packed.dim(1).set_stride(attune::PackedPanels::columns);
        if (schedule_name == Schedule::blocks)
            attune::schedule_blocks(stages, packed, {block}, target);
        else
            attune::schedule_root(stages, packed);
        attune::lower(get_pipeline(), {.whole_vectors = true}, target);
    }

private:
    attune::PackStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(PackLinearWeight, pack_linear_weight)
