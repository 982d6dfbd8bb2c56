// SPDX-License-Identifier: MIT
// MMA schedule of the gradients. The warps of a block loop over the streamed rows together, as in cuda_mma.cpp over keys. They
// take a streamed block in shared memory 16 rows at a time, for which a lane has scores, gradients of the weights and the rows'
// factors in registers.
#include "schedules/sdpa/mma_schedules.h"

namespace attune {
using namespace Halide;

namespace {

constexpr int lane_rows_of_product = 4;  // a lane's rows of 16 rows of a streamed block

void schedule_pairs(MmaGradient &g, MmaPairs &p, const MmaBlock &block) {
    constexpr int groups = 2;  // groups of 8 columns in 16 rows
    const LoopLevel rows(g.accumulator, p.sum_rows);
    for (auto [words, product] : {std::pair(p.streamed_words, p.product), {p.streamed_other_words, p.weight_gradient}}) {
        if (!words.defined()) continue;
        block.in_lane(words, {product.sum, product.term}, {.terms = block.shape.together()});
        block.products(product, rows, groups);
    }
    block.in_lane(p.of_pair.score, rows, {.keys = lane_rows_of_product});
    int step = 0;
    for (const RVar &key : p.of_pair.steps)
        p.of_pair.score.update(step++).reorder(block.v.r, key).unroll(block.v.r).unroll(key);
    block.in_lane(p.of_pair.weight, rows, {.keys = lane_rows_of_product});
    block.in_lane(p.weight_words, rows, {.terms = block.shape.together()});
}

}  // namespace

void schedule_mma_gradient(MmaGradient &g, const MmaShape &shape) {
    const MmaVars &v = g.v;
    const MmaBlock in_block{v, shape};
    g.out.compute_root();
    const LoopLevel lane = in_block.distribute_to_lanes(g.out, g.element, g.slot, g.tile), block(g.out, g.tile);
    std::vector<Func> recomputed = {g.product_recomputed, g.recomputed_pair.score, g.recomputed_pair.weight};
    if (g.weight_gradient_recomputed.defined()) recomputed.push_back(g.weight_gradient_recomputed);
    in_block.recomputing(g.recomputed, lane, recomputed);

    in_block.of_lanes(g.accumulator, block, {.groups = shape.channels / 8});
    in_block.resident(g.resident, block, {g.full.product, g.partial.product});
    if (g.resident_other.words.defined())
        in_block.resident(g.resident_other, block, {g.full.weight_gradient, g.partial.weight_gradient});
    int update = 0;
    for (MmaPairs *p : {&g.full, &g.partial}) {
        Var groups("groups");
        g.accumulator.update(update).split(v.n, groups, v.n, 2);
        std::vector<VarOrRVar> of_block = {p->sum_block};
        if (p->has_heads) of_block.emplace_back(p->sum_head);
        in_block.accumulate(g.accumulator, update, {v.e, v.p, v.n, groups, p->sum_rows}, of_block);
        Stage rows = g.accumulator.update(update++).vectorize(v.e).unroll(v.p).unroll(v.n).unroll(groups);
        // Larger heads leave no registers for two steps at once.
        if (shape.channels <= 64) rows.unroll(p->sum_rows);
        in_block.in_lane(p->summed_words, {g.accumulator, groups}, {.terms = shape.together()});
        schedule_pairs(g, *p, in_block);
        for (const Func &f : p->streamed_totals)
            in_block.of_lanes(f, {g.accumulator, p->sum_block}, {.keys = lane_rows_of_product, .steps = shape.kv_block / 16});
        in_block.staging(p->rows, shape.kv_block, {g.accumulator, p->sum_block});
    }
}

}  // namespace attune
