// SPDX-License-Identifier: MIT
// Prefill with products by AMX tiles. The scores of a KV block leave the tile registers once, and are scaled as they are read.
// Keys, and transposed values, are laid in rows once for all queries.
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_amx(const PrefillParameters &parameters, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(parameters.tile_q, parameters.kv_block, kernel);
    hints.query_block = query_block_of(parameters.tile_q, parameters.kv_block, kernel);
    hints.out_block = block_side(kernel.accumulator, {parameters.tile_q, parameters.kv_block});
    return hints;
}

// The loop over pairs of keys that makes all parts of the weights, and their sum. With one part, whose rounding takes both
// elements of a vector of rows at once, the element of a pair is a lane; several parts are assembled from the remainders of
// both elements.
static void schedule_weights(const SdpaStages &s, const KvBlockStages &partials, const SdpaAmxStages::Factors &factors,
                             const Var &e, const LoopLevel &kv_block, int lanes, int pair_width, const OneTask &one_kv_block) {
    const Var r = s.r, k = s.k;
    KvBlockStages p = partials;
    const KeyLoop &keys = factors.keys;
    Func first = factors.weight_parts[0];
    auto in_pairs = [&](Stage f) { f.reorder(factors.element, r, keys.key, keys.subblock).vectorize(r, lanes); };
    for (Func part : factors.weight_parts) {
        one_kv_block(part.compute_at(kv_block).bound(e, 0, 2).align_storage(r, pair_width));
        Stage made = part.update();
        factors.weight_parts.size() > 1 ? made.unroll(factors.element) : made.vectorize(factors.element);
        in_pairs(made);
        made.unroll(r);
        if (part.name() != first.name()) made.compute_with(first.update(), r);
    }
    if (p.dropped.defined()) {
        schedule_softmax(s, p, kv_block, lanes, one_kv_block);
        return;
    }
    schedule_row_max(s, p, kv_block, lanes, one_kv_block);
    Stage sum = schedule_row_sum(s, p, kv_block, lanes, one_kv_block).update();
    sum.unroll(factors.element);
    in_pairs(sum);
    sum.unroll(r).compute_with(first.update(), keys.key);
    one_kv_block(p.weight.compute_at(first, keys.key)).bound_extent(k, 2).vectorize(r, lanes).unroll(r).unroll(k);
}

// Width of the queries' pairs of channels, which each task lays. Several parts take a cache line more for each pair: rows a
// power of two apart would share few sets of L1.
static int pair_width_of(const SdpaAmxStages &stages, const PrefillParameters &parameters) {
    return parameters.tile_q + (stages.query_pairs.size() > 1 ? amx_tile_side : 0);
}

static void schedule_query_pairs(SdpaAmxStages &stages, const LoopLevel &task, const PrefillParameters &parameters, int lanes,
                                 const OneTask &one_task) {
    const bool in_parts = stages.query_pairs.size() > 1;
    if (in_parts) schedule_query(stages.s, task, lanes, one_task);
    for (Func part : stages.query_pairs) {
        one_task(part.compute_at(task).bound(stages.e, 0, 2).align_storage(stages.s.r, pair_width_of(stages, parameters)));
        in_parts ? part.unroll(stages.e) : part.vectorize(stages.e);
        part.vectorize(stages.s.r, lanes);
    }
}

// Rows of keys, and of values transposed in blocks, once for all queries.
static void schedule_key_and_value_rows(SdpaAmxStages &stages, const PrefillParameters &parameters, int head_dim) {
    const Var u = stages.u, k = stages.s.k, d = stages.s.d, h = stages.s.h, b = stages.s.b;
    Var panel("panel"), block("block"), channel("channel");
    stages.key_rows.compute_root()
        .bound(d, 0, amx_tile_depth)
        .reorder(d, u, k, h, b)
        .fuse(h, b, panel)
        .parallel(panel)
        .vectorize(d);
    const int side = stages.value_blocks.side, blocks = (head_dim + side - 1) / side;
    stages.value_rows.compute_root()
        .bound(k, 0, amx_tile_depth)
        .bound(u, 0, parameters.kv_block / amx_tile_depth)
        .bound(d, 0, blocks * side)
        .fuse(h, b, panel)
        .parallel(panel);
    Stage value_rows = stages.value_rows;
    value_rows.split(d, block, channel, side);
    schedule_blocks(value_rows, stages.value_rows, k, channel, block, {stages.value_blocks});
}

// The KV blocks of update `stage` of block_pv.
static void schedule_kv_blocks(SdpaAmxStages &stages, int stage, KvBlockStages p, const SdpaAmxStages::Factors &factors,
                               const RVar &block_loop, const PrefillParameters &parameters, int head_dim, int lanes) {
    SdpaStages &s = stages.s;
    const Var r = s.r, k = s.k, d = s.d;
    const OneTask one_kv_block = one_kv_block_of(s, parameters.tile_q);
    const TiledSide queries = {r, parameters.tile_q};
    const LoopLevel kv_block(s.block_pv, block_loop);
    Stage pv = s.block_pv.update(stage);
    pv.reorder(r, d, block_loop, s.t, s.h, s.b).vectorize(r, lanes).unroll(r);
    // Not stored where KV blocks are kept: that store is conditional, and a tile would be spilled until the condition is known.
    Func copied = p.pv.in(s.block_pv);
    one_kv_block(copied.compute_at(kv_block));
    schedule_amx_tiles(copied, p.pv, queries, {d, head_dim}, p.pv_keys[0].key);
    schedule_kv_block_sums(s, stage, pv, block_loop, lanes);

    schedule_weights(s, p, factors, stages.e, kv_block, lanes, pair_width_of(stages, parameters), one_kv_block);
    Func scores = p.qk.in(p.score);
    // Where steps change scores, these are stored once more: then some keys at a time, whose scores stay in L1.
    const int keys_of_scores = p.steps.empty() ? parameters.kv_block : parameters.key_tile;
    one_kv_block(p.steps.empty() ? scores.compute_at(kv_block).bound(k, 0, parameters.kv_block)
                                 : scores.compute_at(p.score, p.score_keys.subblock).bound_extent(k, keys_of_scores));
    schedule_amx_tiles(scores, p.qk, queries, {k, keys_of_scores}, p.channel);
    if (!p.steps.empty()) schedule_scores(s, p, kv_block, lanes, one_kv_block);
}

// Stages of a KV block whose values are non-finite.
static void schedule_not_finite(SdpaAmxStages &stages, const PrefillParameters &parameters, int lanes) {
    const Var r = stages.s.r;
    const OneTask one_kv_block = one_kv_block_of(stages.s, parameters.tile_q);
    const LoopLevel nonfinite(stages.s.block_pv, stages.nonfinite_block);
    one_kv_block(stages.finite_rows.compute_at(nonfinite))
        .bound(stages.s.k, 0, amx_tile_depth)
        .bound(stages.u, 0, parameters.kv_block / amx_tile_depth)
        .vectorize(stages.s.k);
    one_kv_block(stages.sum_not_finite.compute_at(nonfinite)).vectorize(r, lanes);
    stages.sum_not_finite.update()
        .reorder(r, stages.not_finite_keys.key, stages.not_finite_keys.subblock, stages.s.d)
        .vectorize(r, lanes)
        .unroll(r);
}

void schedule_amx(SdpaAmxStages &stages, Func out, const PrefillParameters &parameters, const Target &target, Expr value_dim) {
    SdpaStages &s = stages.s;
    const int lanes = target.natural_vector_size(Float(32));
    require_tiles(parameters, lanes, value_dim);
    require_multiple("kv_block", parameters.kv_block, "the depth of an AMX tile", amx_tile_depth);
    require_multiple("kv_subblock", parameters.key_tile, "the depth of an AMX tile", amx_tile_depth);
    require_multiple("tile_q", parameters.tile_q, "the side of an AMX tile", amx_tile_side);
    const auto size = Internal::as_const_int(value_dim);
    require(size.has_value(), "AMX tiles take one head size, which must be given");
    const int head_dim = int(*size);
    require_multiple("the head size", head_dim, "the side of an AMX tile", amx_tile_side);
    const OneTask one_task = one_task_of(s, parameters.tile_q);
    const Var task = schedule_tasks(s, out, parameters, lanes, one_task);
    schedule_query_pairs(stages, LoopLevel(out, task), parameters, lanes, one_task);
    schedule_key_and_value_rows(stages, parameters, head_dim);
    schedule_kv_blocks(stages, 0, s.full, stages.full, s.full_block, parameters, head_dim, lanes);
    schedule_kv_blocks(stages, 1, s.partial, stages.partial, s.partial_block, parameters, head_dim, lanes);
    schedule_kv_blocks(stages, 2, stages.nonfinite, stages.nonfinite_factors, stages.nonfinite_block, parameters, head_dim,
                       lanes);
    schedule_not_finite(stages, parameters, lanes);
}

}  // namespace attune
