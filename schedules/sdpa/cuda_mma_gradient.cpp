// SPDX-License-Identifier: MIT
// The warps of a block walk the rows of the other side together, as those of cuda_mma.cpp walk keys. Of a chunk in shared
// memory they take 16 rows at a time, for which a lane has scores, gradients of the weights and what the rows count in
// registers.
#include "schedules/sdpa/fragment_schedules.h"

namespace attune {
using namespace Halide;

namespace {

constexpr int lane_rows_of_product = 4;  // of 16 rows of a chunk, that a lane has

void schedule_pairs(FragmentGradient &g, FragmentPairs &p, const FragmentBlock &block) {
    constexpr int groups = 2;  // of 16 rows: of 8 columns
    const LoopLevel rows(g.running, p.running_rows);
    for (auto [words, product] : {std::pair(p.met_words, p.product), {p.met_other_words, p.product_gradient}}) {
        if (!words.defined()) continue;
        block.in_lane(words, {product.sum, product.term}, {.terms = block.shape.together()});
        block.products(product, rows, groups);
    }
    block.in_lane(p.of_pair.logit, rows, {.keys = lane_rows_of_product});
    int step = 0;
    for (const RVar &key : p.of_pair.steps)
        p.of_pair.logit.update(step++).reorder(block.v.r, key).unroll(block.v.r).unroll(key);
    block.in_lane(p.of_pair.weight, rows, {.keys = lane_rows_of_product});
    block.in_lane(p.weight_words, rows, {.terms = block.shape.together()});
}

}  // namespace

void schedule_fragment_gradient(FragmentGradient &g, const FragmentShape &shape) {
    const FragmentVars &v = g.v;
    const FragmentBlock in_block{v, shape};
    g.out.compute_root();
    const LoopLevel lane = in_block.deal_to_lanes(g.out, g.element, g.slot, g.tile), block(g.out, g.tile);
    std::vector<Func> again = {g.product_again, g.of_pair_again.logit, g.of_pair_again.weight};
    if (g.product_gradient_again.defined()) again.push_back(g.product_gradient_again);
    in_block.settling(g.settled, lane, again);

    in_block.of_lanes(g.running, block, {.groups = shape.channels / 8});
    in_block.own(g.own, block, {g.full.product, g.part.product});
    if (g.own_other.words.defined()) in_block.own(g.own_other, block, {g.full.product_gradient, g.part.product_gradient});
    int update = 0;
    for (FragmentPairs *p : {&g.full, &g.part}) {
        Var groups("groups");
        g.running.update(update).split(v.n, groups, v.n, 2);
        std::vector<VarOrRVar> of_block = {p->running_chunk};
        if (p->has_heads) of_block.emplace_back(p->running_head);
        in_block.take_up(g.running, update, {v.e, v.p, v.n, groups, p->running_rows}, of_block);
        Stage rows = g.running.update(update++).vectorize(v.e).unroll(v.p).unroll(v.n).unroll(groups);
        // Larger heads leave no registers for two steps at once.
        if (shape.channels <= 64) rows.unroll(p->running_rows);
        in_block.in_lane(p->summed_words, {g.running, groups}, {.terms = shape.together()});
        schedule_pairs(g, *p, in_block);
        for (const Func &f : p->met_totals)
            in_block.of_lanes(f, {g.running, p->running_chunk}, {.keys = lane_rows_of_product, .steps = shape.chunk / 16});
        in_block.staging(p->rows, shape.chunk, {g.running, p->running_chunk});
    }
}

}  // namespace attune
