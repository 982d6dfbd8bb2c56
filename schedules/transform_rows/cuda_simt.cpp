// SPDX-License-Identifier: MIT
#include "schedules/transform_rows/simt_schedules.h"
#include <utility>

namespace attune {
using namespace Halide;

namespace {

// The block of a row, in which its stages are computed.
struct Block {
    const RowVars &vars;
    LoopLevel level;
    SimtRowsParameters the;

    // Stages of a whole row are computed once, in shared memory.
    void hold(Func f) const {
        f.compute_at(level).store_in(MemoryType::GPUShared);
        for (const Var &v : {vars.t, vars.h, vars.b}) f.bound_extent(v, 1);
    }
    // 16 sums, maxima or minima, a lane each.
    void hold_places(Func f, const RVar &block) const {
        hold(f);
        f.bound(vars.e, 0, RowSum::places).gpu_threads(vars.e);
        f.update().reorder(block, vars.e).gpu_threads(vars.e);
    }
    // A loop over channels, or over pairs of them, that the lanes share.
    void share(Stage stage, const RVar &r) const {
        const RVar turn("turn"), lane("lane");
        stage.allow_race_conditions().split(r, turn, lane, the.lanes, TailStrategy::GuardWithIf).gpu_threads(lane);
    }
};

constexpr int butterfly_update = 4;  // of RowTransform::mixed, behind those of RoPE

void schedule_steps(RowTransform &s, const Block &block) {
    block.hold_places(s.norm.squares.of_places, s.norm.squares.block);
    block.hold(s.norm.factor);
    s.norm.factor.gpu_threads(s.vars.h);
    block.hold(s.mixed);
    s.mixed.bound(s.vars.d, 0, block.the.channels).bound(s.vars.s, 0, 2);
    int n = 0;
    for (const RVar &r : {s.rope.before, s.rope.after}) block.share(s.mixed.update(n++), r);
    for (const auto &[number, pair] :
         {std::pair(s.rope.in_half_pair, s.rope.half_pair), std::pair(s.rope.in_near_pair, s.rope.near_pair)}) {
        s.mixed.update(n).unroll(number);
        block.share(s.mixed.update(n++), pair);
    }
    const RVar pair("pair");
    Stage butterfly = s.mixed.update(butterfly_update);
    block.share(butterfly.unroll(s.butterfly.difference).fuse(s.butterfly.place, s.butterfly.block, pair), pair);
}

// A block for each row of each head.
LoopLevel row_blocks(const StoreLoops &o, int lanes) {
    const RVar turn("turn"), lane("lane");
    Func out = o.out;
    // The pure stage computes nothing, but without a GPU loop Halide assumes that the host writes the result.
    out.gpu_blocks(Var("p")).gpu_threads(Var("i"));
    out.update()
        .allow_race_conditions()
        .split(o.d, turn, lane, lanes, TailStrategy::GuardWithIf)
        .gpu_blocks(o.h, o.t, o.b)
        .gpu_threads(lane)
        .never_partition_all();
    return {out, o.h};
}

}  // namespace

void schedule_rows_simt(TransformRowsStages &s, const SimtRowsParameters &p) {
    schedule_steps(s, {s.vars, row_blocks(s.out, p.lanes), p});
}

void schedule_rows_simt(QuantiseRowsStages &s, const SimtRowsParameters &p) {
    const Block block{s.vars, row_blocks(s.int8, p.lanes), p};
    // One kernel for all outputs.
    for (StoreLoops *o : {&s.int4, &s.scale_f32, &s.scale_f16, &s.minimum_f16}) {
        row_blocks(*o, p.lanes);
        o->out.update().compute_with(s.int8.out.update(), o->h);
    }
    schedule_steps(s, block);
    const int groups = p.channels / least_group;
    block.hold_places(s.magnitudes, s.magnitude_block);
    block.hold(s.scale);
    s.scale.gpu_threads(s.vars.h);
    for (const auto &[places, of_block] : {std::pair(s.lowest, s.lowest_block), {s.highest, s.highest_block}}) {
        Func f = places;
        block.hold_places(f, of_block);
        f.bound_storage(s.g, groups);
    }
    for (Func f : {s.low, s.high, s.minimum, s.step}) {
        block.hold(f);
        f.bound_storage(s.g, groups).gpu_threads(s.g);
    }
}

Passes passes_of_rows(const RowTransform &s, const Target &target) {
    return {.loop_barriers = {{s.mixed, butterfly_update + 1, s.butterfly.pass.name()}},
            .rounded_products = target.has_feature(Target::CUDA)};
}

}  // namespace attune
