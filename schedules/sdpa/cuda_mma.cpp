// SPDX-License-Identifier: MIT
// The warps of a block walk the keys together: chunk by chunk, keys and values are copied to shared memory, where every warp
// reads them for its own rows. Scores, weights and weighted values are fragments in registers, and no lane waits for another
// but where a chunk is staged.
#include "lowering/require.h"
#include "schedules/sdpa/fragment_schedules.h"
#include "schedules/sdpa/lane_schedules.h"

namespace attune {
using namespace Halide;

namespace {

void schedule_partials(FragmentStages &stages, FragmentPartials &f, const FragmentBlock &block, const LoopLevel &lane) {
    const FragmentShape &shape = block.shape;
    const Var r = stages.s.r;
    const auto in_keys = [&](Stage s, const RVar &key, const RVar &of_block) {
        s.reorder(r, key, of_block).unroll(r).unroll(key);
    };
    block.in_lane(f.key_words, {f.product.sum, f.product.term}, {.groups = shape.chunk / 16, .terms = shape.together()});
    block.products(f.product, lane, shape.chunk / 8);
    block.in_lane(f.p.logit, lane, {.keys = shape.lane_keys()});
    in_keys(f.p.logit.update(0), f.p.logit_keys.key, f.p.logit_keys.block);
    for (const ScoreUpdate &step : f.p.steps) in_keys(f.p.logit.update(step.update), step.keys.key, step.keys.block);
    block.in_lane(f.lane_max, lane).update().reorder(r, f.max_key).unroll(r).unroll(f.max_key);
    block.in_lane(f.row_max, lane);
    block.in_lane(f.value_words, {stages.running, f.running_keys}, {.groups = shape.channels / 16, .terms = shape.together()});
}

// `result` is an update over what lanes hold in the end.
void schedule_walk(FragmentStages &stages, Func result, const FragmentShape &shape) {
    SdpaStages &s = stages.s;
    const FragmentBlock in_block{stages.v, shape};
    const LoopLevel in_out = in_block.deal_to_lanes(result, stages.element, stages.slot, stages.tile),
                    block(result, stages.tile);
    in_block.in_lane(stages.sum, in_out);
    in_block.in_lane(stages.max, in_out);
    if (stages.lse.defined()) in_block.in_lane(stages.lse, in_out);
    in_block.settling(stages.settled, in_out, {stages.of_key.score, stages.of_key.logit});

    in_block.of_lanes(stages.running, block);
    in_block.own(stages.queries, block, {stages.full.product, stages.part.product});
    int update = 0;
    for (FragmentPartials *f : {&stages.full, &stages.part}) {
        const LoopLevel lane = in_block.take_up(stages.running, update, {f->running_keys}, {f->running_chunk});
        stages.running.update(update++).unroll(f->running_keys);
        schedule_partials(stages, *f, in_block, lane);
        in_block.staging(f->rows, shape.chunk, {stages.running, f->running_chunk});
    }
}

}  // namespace

void schedule_fragments(FragmentStages &stages, Func out, const FragmentShape &shape) { schedule_walk(stages, out, shape); }

void schedule_split_fragments(FragmentStages &stages, Func out, Func state, const FragmentShape &shape, int part) {
    require_multiple("part", part, "chunk", shape.chunk);
    state.compute_root();
    schedule_walk(stages, state, shape);
    schedule_merge_of_parts(stages.s, stages.merged, out);
}

}  // namespace attune
