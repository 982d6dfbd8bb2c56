// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs. The block mask of a user's mask.
#include "generators/attention/equations/user_attention.h"
#include "generators/mask_blocks/mask_blocks_stages.h"
#include "schedules/mask_blocks/mask_blocks_schedules.h"

namespace {
using namespace Halide;

class MaskBlocks : public Halide::Generator<MaskBlocks> {
public:
    GeneratorParam<Type> dtype{"dtype", Float(32)};  // type of the scores, and so of the captures
    GeneratorParam<int> group{"group", 64, 1, 1024};

    Input<int32_t> query_heads{"query_heads"}, key_heads{"key_heads"}, queries{"queries"}, keys{"keys"};
    Input<int32_t> block_heads{"block_heads"}, block_queries{"block_queries"}, block_keys{"block_keys"};
    Input<Buffer<int32_t, 1>> offset{"offset"};

    void configure() {
        user_inputs.add_to(*this, dtype);
        blocks = add_output<Buffer<>>("blocks", Int(32), 4);
    }

    void generate() {
        user_inputs.connect();
        attune::MaskFunction mask = [](const attune::Index &) { return Internal::const_true(); };  // never called
        if (const attune::MaskFunction &of_user = attune::user_attention()->mask)
            mask = [&](const attune::Index &at) { return of_user(user_inputs.global()(at)); };
        stages = attune::mask_blocks_stages(
            {mask, offset, query_heads, key_heads, queries, keys, block_heads, block_queries, block_keys}, group);
        *blocks = stages.out;
    }

    void schedule() {
        offset.dim(0).set_min(0).set_stride(Expr());
        user_inputs.constrain();
        for (int n = 0; n < 4; n++) blocks->dim(n).set_min(0);
        attune::schedule_mask_blocks(stages, *blocks, group, target);
    }

private:
    Output<Buffer<>> *blocks = nullptr;
    attune::UserInputs user_inputs;
    attune::MaskBlocksStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(MaskBlocks, mask_blocks)
