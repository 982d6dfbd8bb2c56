// SPDX-License-Identifier: MIT
// MMA schedule of the forward. The warps of a block loop over the keys together: one KV block after the other, keys and values
// are copied to shared memory, where every warp reads them for its own rows. Scores, weights and weighted values are fragments
// in registers, and a lane waits for others only where a KV block is staged.
#include "lowering/require.h"
#include "schedules/sdpa/mma_schedules.h"
#include "schedules/sdpa/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

void schedule_block_stages(MmaStages &stages, MmaBlockStages &f, const MmaBlock &block, const LoopLevel &lane) {
    const MmaShape &shape = block.shape;
    const Var r = stages.s.r;
    const auto in_keys = [&](Stage s, const RVar &key, const RVar &of_block) {
        s.reorder(r, key, of_block).unroll(r).unroll(key);
    };
    block.in_lane(f.key_words, {f.product.sum, f.product.term}, {.groups = shape.kv_block / 16, .terms = shape.together()});
    block.products(f.product, lane, shape.kv_block / 8);
    block.in_lane(f.p.score, lane, {.keys = shape.lane_keys()});
    in_keys(f.p.score.update(0), f.p.score_keys.key, f.p.score_keys.subblock);
    for (const ScoreUpdate &step : f.p.steps) in_keys(f.p.score.update(step.update), step.keys.key, step.keys.subblock);
    block.in_lane(f.lane_max, lane).update().reorder(r, f.max_key).unroll(r).unroll(f.max_key);
    block.in_lane(f.row_max, lane);
    block.in_lane(f.value_words, {stages.online_softmax, f.online_keys},
                  {.groups = shape.channels / 16, .terms = shape.together()});
}

// `result` is an update over the final state of the lanes.
void schedule_online_softmax(MmaStages &stages, Func result, const MmaShape &shape) {
    SdpaStages &s = stages.s;
    const MmaBlock in_block{stages.v, shape};
    const LoopLevel in_out = in_block.distribute_to_lanes(result, stages.element, stages.slot, stages.tile),
                    block(result, stages.tile);
    in_block.in_lane(stages.sum, in_out);
    in_block.in_lane(stages.max, in_out);
    if (stages.lse.defined()) in_block.in_lane(stages.lse, in_out);
    in_block.recomputing(stages.recomputed, in_out, {stages.of_key.qk, stages.of_key.score});

    in_block.of_lanes(stages.online_softmax, block);
    in_block.resident(stages.queries, block, {stages.full.product, stages.partial.product});
    int update = 0;
    for (MmaBlockStages *f : {&stages.full, &stages.partial}) {
        const LoopLevel lane = in_block.accumulate(stages.online_softmax, update, {f->online_keys}, {f->online_block});
        stages.online_softmax.update(update++).unroll(f->online_keys);
        schedule_block_stages(stages, *f, in_block, lane);
        in_block.staging(f->rows, shape.kv_block, {stages.online_softmax, f->online_block});
    }
}

}  // namespace

void schedule_mma(MmaStages &stages, Func out, const MmaShape &shape) { schedule_online_softmax(stages, out, shape); }

void schedule_split_mma(MmaStages &stages, Func out, Func state, const MmaShape &shape, int split_keys) {
    require_multiple("split_keys", split_keys, "kv_block", shape.kv_block);
    state.compute_root();
    schedule_online_softmax(stages, state, shape);
    schedule_merge_of_splits(stages.s, stages.merged, out);
}

}  // namespace attune
