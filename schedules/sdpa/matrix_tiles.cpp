// SPDX-License-Identifier: MIT
// As prefill, with products of matrix tiles (AMX). Scores of a chunk leave the tile registers once, and are scaled as they are
// read. Keys, and values transposed, are laid in rows once for all queries.
#include "schedules/matrix_tiles.h"
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_matrix_tiles(const PrefillTuning &tuning, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(tuning.tile_q, tuning.chunk, kernel);
    hints.query_block = query_block_of(tuning.tile_q, tuning.chunk, kernel);
    hints.out_block = block_side(kernel.accumulator, {tuning.tile_q, tuning.chunk});
    return hints;
}

// One loop over pairs of keys makes all parts of the weights, and their sum. Of pairs in one part, whose rounding takes both
// elements of a vector of rows at once, the element is a lane; those of several parts are put together from what is left of
// each.
static void schedule_weights(const SdpaStages &s, const SdpaPartials &partials, const TileStages::Factors &factors,
                             const Var &e, const LoopLevel &chunk, int lanes, int pair_width, const OneTask &one_chunk) {
    const Var r = s.r, k = s.k;
    SdpaPartials p = partials;
    const KeyLoop &keys = factors.keys;
    Func first = factors.weight_parts[0];
    auto in_pairs = [&](Stage f) { f.reorder(factors.element, r, keys.key, keys.block).vectorize(r, lanes); };
    for (Func part : factors.weight_parts) {
        one_chunk(part.compute_at(chunk).bound(e, 0, 2).align_storage(r, pair_width));
        Stage made = part.update();
        factors.weight_parts.size() > 1 ? made.unroll(factors.element) : made.vectorize(factors.element);
        in_pairs(made);
        made.unroll(r);
        if (part.name() != first.name()) made.compute_with(first.update(), r);
    }
    if (p.dropped.defined()) {
        schedule_softmax(s, p, chunk, lanes, one_chunk);
        return;
    }
    schedule_row_max(s, p, chunk, lanes, one_chunk);
    one_chunk(p.row_sum.compute_at(chunk)).vectorize(r, lanes).unroll(r);
    Stage sum = p.row_sum.update();
    sum.unroll(factors.element);
    in_pairs(sum);
    sum.unroll(r).compute_with(first.update(), keys.key);
    one_chunk(p.weight.compute_at(first, keys.key)).bound_extent(k, 2).vectorize(r, lanes).unroll(r).unroll(k);
}

// Queries in pairs of channels, by each task. A cache line more for each pair of several parts: rows that lie a power of two
// apart would share few sets of L1.
static int pair_width_of(const TileStages &stages, const PrefillTuning &tuning) {
    return tuning.tile_q + (stages.query_pairs.size() > 1 ? matrix_tile_side : 0);
}

static void schedule_query_pairs(TileStages &stages, const LoopLevel &task, const PrefillTuning &tuning, int lanes,
                                 const OneTask &one_task) {
    const bool in_parts = stages.query_pairs.size() > 1;
    if (in_parts) schedule_query(stages.s, task, lanes, one_task);
    for (Func part : stages.query_pairs) {
        one_task(part.compute_at(task).bound(stages.e, 0, 2).align_storage(stages.s.r, pair_width_of(stages, tuning)));
        in_parts ? part.unroll(stages.e) : part.vectorize(stages.e);
        part.vectorize(stages.s.r, lanes);
    }
}

// Keys, and values transposed in blocks, once for all queries.
static void schedule_key_and_value_rows(TileStages &stages, const PrefillTuning &tuning, int head_dim) {
    const Var u = stages.u, k = stages.s.k, d = stages.s.d, h = stages.s.h, b = stages.s.b;
    Var panel("panel"), block("block"), channel("channel");
    stages.key_rows.compute_root()
        .bound(d, 0, matrix_tile_depth)
        .reorder(d, u, k, h, b)
        .fuse(h, b, panel)
        .parallel(panel)
        .vectorize(d);
    const int side = stages.value_blocks.side, blocks = (head_dim + side - 1) / side;
    stages.value_rows.compute_root()
        .bound(k, 0, matrix_tile_depth)
        .bound(u, 0, tuning.chunk / matrix_tile_depth)
        .bound(d, 0, blocks * side)
        .fuse(h, b, panel)
        .parallel(panel);
    Stage value_rows = stages.value_rows;
    value_rows.split(d, block, channel, side);
    schedule_blocks(value_rows, stages.value_rows, k, channel, block, {stages.value_blocks});
}

// The chunks that update `stage` of chunk_mixed takes.
static void schedule_chunks(TileStages &stages, int stage, SdpaPartials p, const TileStages::Factors &factors,
                            const RVar &chunk_loop, const PrefillTuning &tuning, int head_dim, int lanes) {
    SdpaStages &s = stages.s;
    const Var r = s.r, k = s.k, d = s.d;
    const OneTask one_chunk = one_chunk_of(s, tuning.tile_q);
    const TiledSide queries = {r, tuning.tile_q};
    const LoopLevel chunk(s.chunk_mixed, chunk_loop);
    Stage mixed = s.chunk_mixed.update(stage);
    mixed.reorder(r, d, chunk_loop, s.t, s.h, s.b).vectorize(r, lanes).unroll(r);
    // Not stored where chunks are kept: that is conditional, and a tile would be spilled until the condition is known.
    Func copied = p.mixed.in(s.chunk_mixed);
    one_chunk(copied.compute_at(chunk));
    schedule_matrix_tiles(copied, p.mixed, queries, {d, head_dim}, p.mixed_keys[0].key);
    schedule_chunk_sums(s, stage, mixed, chunk_loop, lanes);

    schedule_weights(s, p, factors, stages.e, chunk, lanes, pair_width_of(stages, tuning), one_chunk);
    Func scores = p.score.in(p.logit);
    // Where steps change scores, they are stored once more: some keys at a time then, which stay in the first cache.
    const int keys_of_scores = p.steps.empty() ? tuning.chunk : tuning.key_tile;
    one_chunk(p.steps.empty() ? scores.compute_at(chunk).bound(k, 0, tuning.chunk)
                              : scores.compute_at(p.logit, p.logit_keys.block).bound_extent(k, keys_of_scores));
    schedule_matrix_tiles(scores, p.score, queries, {k, keys_of_scores}, p.channel);
    if (!p.steps.empty()) schedule_logits(s, p, chunk, lanes, one_chunk);
}

// What a chunk needs of values that are not finite.
static void schedule_not_finite(TileStages &stages, const PrefillTuning &tuning, int lanes) {
    const Var r = stages.s.r;
    const OneTask one_chunk = one_chunk_of(stages.s, tuning.tile_q);
    const LoopLevel spoiled(stages.s.chunk_mixed, stages.spoiled_chunk);
    one_chunk(stages.finite_rows.compute_at(spoiled))
        .bound(stages.s.k, 0, matrix_tile_depth)
        .bound(stages.u, 0, tuning.chunk / matrix_tile_depth)
        .vectorize(stages.s.k);
    one_chunk(stages.not_finite.compute_at(spoiled)).vectorize(r, lanes);
    stages.not_finite.update()
        .reorder(r, stages.not_finite_keys.key, stages.not_finite_keys.block, stages.s.d)
        .vectorize(r, lanes)
        .unroll(r);
}

void schedule_matrix_tiles(TileStages &stages, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    SdpaStages &s = stages.s;
    const int lanes = target.natural_vector_size(Float(32));
    require_tiles(tuning, lanes, value_dim);
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    require_multiple("key_block", tuning.key_tile, "the depth of a matrix tile", matrix_tile_depth);
    require_multiple("tile_q", tuning.tile_q, "the side of a matrix tile", matrix_tile_side);
    const auto size = Internal::as_const_int(value_dim);
    require(size.has_value(), "matrix tiles take one head size, which must be given");
    const int head_dim = int(*size);
    require_multiple("the head size", head_dim, "the side of a matrix tile", matrix_tile_side);
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    const Var task = schedule_tasks(s, out, tuning, lanes, one_task);
    schedule_query_pairs(stages, LoopLevel(out, task), tuning, lanes, one_task);
    schedule_key_and_value_rows(stages, tuning, head_dim);
    schedule_chunks(stages, 0, s.full, stages.full, s.full_chunk, tuning, head_dim, lanes);
    schedule_chunks(stages, 1, s.part, stages.part, s.part_chunk, tuning, head_dim, lanes);
    schedule_chunks(stages, 2, stages.spoiled, stages.spoiled_factors, stages.spoiled_chunk, tuning, head_dim, lanes);
    schedule_not_finite(stages, tuning, lanes);
}

}  // namespace attune
