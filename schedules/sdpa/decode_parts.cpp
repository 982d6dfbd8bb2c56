// SPDX-License-Identifier: MIT
// Parts that the split-KV schedules of few rows share.
#include "schedules/sdpa/decode_parts.h"
#include "lowering/require.h"

namespace attune {
using namespace Halide;
using namespace decode_loops;

namespace {

void require_decode(const DecodeParameters &parameters, const DecodeInputs &in, int lanes) {
    require(parameters.row_tile > 0, "tile_q must be given");
    require_multiple("kv_block", parameters.kv_block, "kv_subblock", parameters.kv_subblock);
    require_multiple("kv_subblock", parameters.kv_subblock, "key_tile", parameters.key_tile);
    if (in.row_shift.defined()) require_multiple("the keys of a run", keys_of_run, "key_tile", parameters.key_tile);
    require_multiple("kv_subblock", parameters.kv_subblock, "value_block", parameters.value_block);
    require_multiple("kv_subblock", parameters.kv_subblock, "the vector width", lanes);
    require_multiple("prefetch_keys", parameters.prefetch_keys, "key_tile", parameters.key_tile);
    require_multiple("prefetch_keys", parameters.prefetch_keys, "value_block", parameters.value_block);
}

// One parallel loop over KV blocks gives maximum, sum and weighted values, which are channels of one Func; the merge of KV
// blocks; and queries, in which channels are contiguous, as keys are in the scores and weights.
void schedule_packed(SdpaStages &s, Func out, const DecodeParameters &parameters, const Expr &value_dim, int lanes,
                     int product_rows) {
    const Var r = s.r, d = s.d;
    schedule_split_merge(s, out, lanes);
    s.block_packed.compute_root().bound(d, 0, value_dim + lanes).align_bounds(r, parameters.row_tile);
    s.query_t.compute_root().reorder(d, r, s.t, s.h, s.b).bound(r, 0, product_rows);
    s.query_t.vectorize(d, lanes, TailStrategy::GuardWithIf);
}

// Scores, tile of keys by tile of keys, and the steps after them.
void schedule_decode_scores(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    const KeyLoop &keys = c.p.score_keys;
    Func score = c.p.score;
    score.compute_at(c.level()).reorder_storage(s.k, s.r, s.c, s.t, s.h, s.b);
    score.update(0)
        .split(keys.key, ko, ki, c.parameters.key_tile)
        .reorder(ki, s.r, ko, keys.subblock)
        .allow_race_conditions()
        .vectorize(ki)
        .unroll(s.r);
    for (const ScoreUpdate &step : c.p.steps) c.along_keys(score.update(step.update), step.keys);
    // Tiles of keys.
    const LoweredLoop tiles{score, 1, keys.key.name() + "." + ko.name()};
    c.prefetch(c.in.key, {score.update(0), ko, c.parameters.prefetch_keys / c.parameters.key_tile}, tiles);
    c.lift_shifts(tiles);
}

// Random words, one call for four keys.
void schedule_decode_dropout(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k, four("four_of_keys"), in_four("in_four");
    Func dropped = c.p.dropped, random = c.p.random;
    if (!dropped.defined()) return;
    dropped.compute_at(c.level()).reorder_storage(k, r, s.c, s.t, s.h, s.b).bound(r, 0, c.parameters.row_tile);
    if (!random.defined()) {
        dropped.reorder(k, r).vectorize(k, c.lanes);
        return;
    }
    dropped.split(k, four, in_four, 4).reorder(in_four, four, r).unroll(in_four).vectorize(four, c.lanes);
    const Var words = random.args()[1];
    random.compute_at(c.level())
        .reorder_storage(words, r, s.c, s.t, s.h, s.b)
        .reorder(words, r)
        .vectorize(words, c.lanes)
        .bound(r, 0, c.parameters.row_tile);
}

}  // namespace

int begin_decode(SdpaStages &s, Func out, const DecodeParameters &parameters, const Target &target, const DecodeInputs &in,
                 int product_rows) {
    const int lanes = target.natural_vector_size(s.full.score.type());
    require_decode(parameters, in, lanes);
    if (const auto size = Internal::as_const_int(in.value_dim))
        require_multiple("the head size", static_cast<int>(*size), "the vector width", lanes);
    schedule_packed(s, out, parameters, in.value_dim, lanes, product_rows);
    return lanes;
}

Stage schedule_kv_block_tasks(const SdpaStages &s, int stage, const DecodeInputs &in, int lanes) {
    const RVar block_task("block_task"), kv_block = stage == 0 ? s.full_block : s.partial_block;
    Func packed = s.block_packed;
    Stage tasks = packed.update(stage);
    Var heads = s.h;
    if (in.heads_of_task.defined()) {
        const Var head("head");
        heads = Var("heads");
        tasks.split(s.h, heads, head, in.heads_of_task, TailStrategy::GuardWithIf)
            .reorder(s.d, s.r, s.t, head, kv_block, heads, s.b);
    } else {
        tasks.reorder(s.d, s.r, s.t, kv_block, heads, s.b);
    }
    tasks.fuse(kv_block, heads, block_task)
        .fuse(block_task, s.b, block_task)
        .parallel(block_task)
        .vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    return tasks;
}

DecodeBlock begin_kv_block(SdpaStages &s, int stage, const DecodeParameters &parameters, Passes &passes, const DecodeInputs &in,
                           int lanes) {
    const DecodeBlock c{s, stage == 0 ? s.full : s.partial, parameters, passes, in, lanes};
    schedule_decode_scores(c);
    schedule_decode_dropout(c);
    return c;
}

Func schedule_lane_qk(const DecodeBlock &c, Func qk, Func lane_qk, const RVar &of_lane, const RVar &across) {
    const SdpaStages &s = c.s;
    const Var r = s.r, k = s.k;
    Func sums = lane_qk.in(qk);
    sums.compute_at(c.p.score, ko)
        .reorder_storage(lane, k, r, s.c, s.t, s.h, s.b)
        .reorder(lane, r, k)
        .vectorize(lane)
        .unroll(r);
    lane_qk.reorder_storage(lane, k, r, s.c, s.t, s.h, s.b).reorder(lane, r, k).vectorize(lane).unroll(r);
    lane_qk.update().reorder(lane, r, k, of_lane).vectorize(lane).unroll(r);
    qk.compute_at(c.p.score, ko).reorder_storage(k, r, s.c, s.t, s.h, s.b).vectorize(k).vectorize(r);
    qk.update().reorder(across, k, r).atomic().vectorize(across).vectorize(k).vectorize(r);
    for (Func f : {qk, sums}) f.bound_extent(k, c.parameters.key_tile).bound(r, 0, c.product_rows).store_in(MemoryType::Stack);
    lane_qk.bound(r, 0, c.product_rows).store_in(MemoryType::Stack);
    return sums;
}

Func schedule_qk_of_one_size(const DecodeBlock &c, Func qk) {
    Func lane_qk = qk.update().split(c.p.channel, co, ci, c.lanes).rfactor(ci, lane);
    Func sums = schedule_lane_qk(c, qk, lane_qk, co, ci);
    lane_qk.compute_at(sums, c.s.k).bound_extent(c.s.k, 1).update().unroll(co);
    return lane_qk;
}

Func reduced_in_lanes(Func f, const RVar &along, const Var &row, int width) {
    Func lane_reduced = f.update().split(along, mo, mi, width).rfactor(mi, lane);
    lane_reduced.compute_at(f, row).vectorize(lane).update().vectorize(lane);
    return lane_reduced;
}

void schedule_decode_softmax(const DecodeBlock &c) {
    const SdpaStages &s = c.s;
    Func weight = c.p.weight;
    for (auto [f, keys] : {std::pair(c.p.row_max, c.p.max_keys), std::pair(c.p.row_sum, c.p.sum_keys)}) {
        reduced_in_lanes(f, keys.key, s.r, c.lanes);
        f.compute_at(c.level()).update().atomic().vectorize(mi);
    }
    weight.compute_at(c.level()).reorder_storage(s.k, s.r, s.c, s.t, s.h, s.b);
    c.along_keys(weight.update(0), c.p.weight_keys);
}

void bound_decode_block(const DecodeBlock &c, int elements) {
    for (Func f : {c.p.score, c.p.row_max, c.p.row_sum, c.p.weight, c.p.pv}) f.bound(c.s.r, 0, c.parameters.row_tile);
    Func score = c.p.score, weight = c.p.weight;
    score.bound(c.s.k, 0, c.parameters.kv_block), weight.bound(c.s.k, 0, c.parameters.kv_block / elements);
}

void keep_small_on_stack(const DecodeBlock &c) {
    constexpr int small = 16 * 1024;
    if (c.parameters.kv_block * c.parameters.row_tile * c.p.score.type().bytes() > small) return;
    for (Func f : {c.p.score, c.p.weight}) f.store_in(MemoryType::Stack);
}

}  // namespace attune
