// As prefill, with products of matrix tiles (AMX). Scores of a chunk leave the tile registers once, and are scaled as they are
// read. Keys, and values transposed, are laid in rows once for all queries.
#include "schedules/matrix_tiles.h"
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <tuple>

namespace attune {
using namespace Halide;

ScheduleHints hints_for_matrix_tiles(const PrefillTuning &tuning, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(tuning.tile_q, tuning.chunk, kernel);
    hints.query_block = query_block_of(tuning.tile_q, tuning.chunk, kernel);
    hints.out_block = block_side(kernel.accumulator, {tuning.tile_q, tuning.chunk});
    return hints;
}

// One loop over pairs of keys makes all parts of the weights, and their sum. Of pairs in one part, whose rounding takes both elements
// of a vector of rows at once, the element is a lane; those of several parts are put together from what is left of each.
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

void schedule_matrix_tiles(TileStages &stages, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    SdpaStages &s = stages.s;
    const int lanes = target.natural_vector_size(Float(32));
    require_tiles(tuning, lanes, value_dim);
    require_multiple("chunk", tuning.chunk, "the depth of a matrix tile", matrix_tile_depth);
    require_multiple("key_block", tuning.key_tile, "the depth of a matrix tile", matrix_tile_depth);
    require_multiple("tile_q", tuning.tile_q, "the side of a matrix tile", matrix_tile_side);
    const auto head_dim = Internal::as_const_int(value_dim);
    require(head_dim.has_value(), "matrix tiles take one head size, which must be given");
    require_multiple("the head size", int(*head_dim), "the side of a matrix tile", matrix_tile_side);
    const Var e = stages.e, u = stages.u, r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    Var panel("panel"), block("block"), channel("channel");
    const OneTask one_task = one_task_of(s, tuning.tile_q), one_chunk = one_chunk_of(s, tuning.tile_q);
    const Var task = schedule_tasks(s, out, tuning, lanes, one_task);
    const bool in_parts = stages.query_pairs.size() > 1;
    // A cache line more for each pair: rows that lie a power of two apart would share few sets of L1.
    const int pair_width = tuning.tile_q + (in_parts ? matrix_tile_side : 0);
    if (in_parts) schedule_query(s, LoopLevel(out, task), lanes, one_task);
    for (Func part : stages.query_pairs) {
        one_task(part.compute_at(out, task).bound(e, 0, 2).align_storage(r, pair_width));
        in_parts ? part.unroll(e) : part.vectorize(e);
        part.vectorize(r, lanes);
    }
    stages.key_rows.compute_root()
        .bound(d, 0, matrix_tile_depth)
        .reorder(d, u, k, h, b)
        .fuse(h, b, panel)
        .parallel(panel)
        .vectorize(d);
    const int side = stages.value_blocks.side, blocks = (int(*head_dim) + side - 1) / side;
    stages.value_rows.compute_root()
        .bound(k, 0, matrix_tile_depth)
        .bound(u, 0, tuning.chunk / matrix_tile_depth)
        .bound(d, 0, blocks * side)
        .fuse(h, b, panel)
        .parallel(panel);
    Stage value_rows = stages.value_rows;
    value_rows.split(d, block, channel, side);
    schedule_blocks(value_rows, stages.value_rows, k, channel, block, {stages.value_blocks});

    const std::tuple<SdpaPartials, TileStages::Factors, RVar> chunks[] = {
        {s.full, stages.full, s.full_chunk},
        {s.part, stages.part, s.part_chunk},
        {stages.spoiled, stages.spoiled_factors, stages.spoiled_chunk}};
    const TiledSide queries = {r, tuning.tile_q};
    int stage = 0;
    for (auto [p, factors, chunk_loop] : chunks) {
        const LoopLevel chunk(s.chunk_mixed, chunk_loop);
        Stage mixed = s.chunk_mixed.update(stage);
        mixed.reorder(r, d, chunk_loop, t, h, b).vectorize(r, lanes).unroll(r);
        // Not stored where chunks are kept: that is conditional, and a tile would be spilled until the condition is known.
        Func copied = p.mixed.in(s.chunk_mixed);
        one_chunk(copied.compute_at(chunk));
        schedule_matrix_tiles(copied, p.mixed, queries, {d, int(*head_dim)}, p.mixed_keys[0].key);
        schedule_chunk_sums(s, stage++, mixed, chunk_loop, lanes);

        schedule_weights(s, p, factors, e, chunk, lanes, pair_width, one_chunk);
        Func scores = p.score.in(p.logit);
        // Where steps change scores, they are stored once more: some keys at a time then, which stay in the first cache.
        const int keys_of_scores = p.steps.empty() ? tuning.chunk : tuning.key_tile;
        one_chunk(p.steps.empty() ? scores.compute_at(chunk).bound(k, 0, tuning.chunk)
                                  : scores.compute_at(p.logit, p.logit_keys.block).bound_extent(k, keys_of_scores));
        schedule_matrix_tiles(scores, p.score, queries, {k, keys_of_scores}, p.channel);
        if (!p.steps.empty()) schedule_logits(s, p, chunk, lanes, one_chunk);
    }
    const LoopLevel spoiled(s.chunk_mixed, stages.spoiled_chunk);
    one_chunk(stages.finite_rows.compute_at(spoiled))
        .bound(k, 0, matrix_tile_depth)
        .bound(u, 0, tuning.chunk / matrix_tile_depth)
        .vectorize(k);
    one_chunk(stages.not_finite.compute_at(spoiled)).vectorize(r, lanes);
    stages.not_finite.update()
        .reorder(r, stages.not_finite_keys.key, stages.not_finite_keys.block, d)
        .vectorize(r, lanes)
        .unroll(r);
}

}  // namespace attune
