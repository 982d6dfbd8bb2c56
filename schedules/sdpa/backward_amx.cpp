// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/sdpa/backward_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

// `rows_together` rows of a tile's sum, which leave the tile registers at a time.
static void schedule_amx_sum(const BackwardStages &s, const TileSum &sum, const TiledSide &lane, const Var &row,
                             const LoopLevel &rows, int rows_together, int lanes) {
    Func part = sum.part;
    part.compute_at(rows).bound_extent(row, rows_together);
    for (const Var &v : {s.u, s.h, s.t}) part.bound_extent(v, 1);
    schedule_amx_tiles(part, sum.product, lane, {row, rows_together}, sum.along[0]);
    if (sum.along.size() > 1) part.update().reorder(lane.var, row, sum.along[1]).vectorize(lane.var, lanes);
}

// The factors, once for all tiles: rows of channels or of queries; pairs of channels or of keys.
static void schedule_factors(BackwardStages &s, const BackwardParameters &parameters, int lanes, int head_dim) {
    const Var r = s.r, q = s.q, d = s.d, e = s.e;
    const BackwardStages::AmxFactors &factors = s.factors;
    const bool in_parts = factors.key_t.size() > 1;
    for (Func f : {s.query_rows, s.grad_rows}) f.compute_root().bound(d, 0, head_dim).vectorize(d, 2 * lanes);
    auto in_blocks = [&](Func f, const Var &row, int rows, const BlockTranspose &table) {
        require_multiple("head_dim", head_dim, "what is transposed in a block", table.side);
        require_multiple("the side of a tile", rows, "what is transposed in a block", table.side);
        Var block("block"), channel("channel");
        f.compute_root().bound(row, 0, rows).bound(d, 0, head_dim).split(d, block, channel, table.side);
        schedule_blocks(f, f, row, channel, block, {table});
    };
    in_blocks(factors.query_columns, q, parameters.tile_q, *factors.query_blocks);
    in_blocks(factors.grad_columns, q, parameters.tile_q, *factors.grad_blocks);
    if (in_parts) {
        in_blocks(factors.key_columns, r, parameters.kv_block, *factors.key_blocks);
        in_blocks(factors.value_columns, r, parameters.kv_block, *factors.value_blocks);
    }
    for (Func f : {factors.finite_query_columns, factors.finite_grad_columns})
        f.compute_root().bound(q, 0, parameters.tile_q).vectorize(q, lanes);
    for (const auto &all : {factors.key_t, factors.value_t})
        for (Func f : all) {
            f.compute_root().bound(r, 0, parameters.kv_block).bound(e, 0, 2).reorder(e, r, d).vectorize(r, lanes);
            in_parts ? f.unroll(e) : f.vectorize(e);
        }
    for (const auto &all : {factors.key_pairs, factors.finite_key_pairs})
        for (Func f : all) f.compute_root().bound(e, 0, 2).bound(d, 0, head_dim).reorder(e, d).vectorize(d, lanes).unroll(e);
}

// A total, its side along lanes, and the sums that full and partial tiles add to it.
struct AmxTotal {
    Func total;
    TiledSide lane;
    Var row;
    TileSum full, partial;
};

static std::vector<AmxTotal> amx_totals(const BackwardStages &s, const BackwardParameters &parameters, int lanes,
                                        int head_dim) {
    const Var r = s.r, q = s.q, d = s.d;
    const std::vector<AmxTotal> totals = {{s.query_total, {d, head_dim}, q, s.full.query_sum, s.partial.query_sum},
                                          {s.key_total, {r, parameters.kv_block}, d, s.full.key_sum, s.partial.key_sum},
                                          {s.value_total, {r, parameters.kv_block}, d, s.full.value_sum, s.partial.value_sum}};
    for (const AmxTotal &x : totals) {
        Func total = x.total;
        total.compute_root().bound(d, 0, head_dim).vectorize(x.lane.var, lanes);
        if (x.lane.var.same_as(r))
            total.bound(r, 0, parameters.kv_block);
        else
            total.bound(q, 0, parameters.tile_q);
    }
    return totals;
}

// All totals in one loop over the tiles of update `stage`, so that a tile's shared results are computed once. Returns the loop.
static LoopLevel schedule_totals(const BackwardStages &s, const std::vector<AmxTotal> &totals, int stage, int lanes) {
    const BackwardStages::Loops &loops = stage == 0 ? s.full_tiles : s.partial_tiles;
    const int rows_together = s.factors.key_t.size() > 1 ? 2 * amx_tile_side : amx_tile_side;
    Var ro("ro"), ri("ri");
    Func first = totals[0].total;
    for (const AmxTotal &x : totals) {
        Func total = x.total;
        Stage update = total.update(stage);
        update.split(x.row, ro, ri, rows_together);
        update.reorder(x.lane.var, ri, ro, loops.key, loops.query, loops.query_tile, loops.head, loops.key_tile);
        update.vectorize(x.lane.var, lanes).unroll(x.lane.var).never_partition_all();
        if (total.name() != first.name()) update.compute_with(first.update(stage), loops.query_tile);
        schedule_amx_sum(s, stage == 0 ? x.full : x.partial, x.lane, x.row, {total, ro}, rows_together, lanes);
    }
    return {first, loops.query_tile};
}

void schedule_backward_amx(BackwardStages &s, const std::vector<Func> &outputs, const BackwardParameters &parameters,
                           const Target &target, int head_dim) {
    const int lanes = target.natural_vector_size(Float(32));
    require(head_dim > 0, "AMX tiles take one head size, which must be given");
    require_multiple("kv_block", parameters.kv_block, "the depth of an AMX tile", amx_tile_depth);
    require_multiple("kv_block", parameters.kv_block, "the keys of key_vectors", parameters.key_vectors * lanes);
    require_multiple("tile_q", parameters.tile_q, "the depth of an AMX tile", amx_tile_depth);
    require_multiple("tile_q", parameters.tile_q, "query_tile", parameters.query_tile);
    for (Func f : outputs) {
        f.compute_root();
        if (f.name() != s.bias_out.name()) f.vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    }
    schedule_magnitudes(s, lanes);
    schedule_factors(s, parameters, lanes, head_dim);
    const std::vector<AmxTotal> totals = amx_totals(s, parameters, lanes, head_dim);
    for (int stage = 0; stage < 2; stage++) {
        const BackwardTile &p = stage == 0 ? s.full : s.partial;
        const LoopLevel tile = schedule_totals(s, totals, stage, lanes);
        schedule_backward_scores(s, p, tile, parameters, lanes);
        schedule_rounding(s, p, tile, parameters, lanes);
    }
    schedule_grad_bias(s, lanes);
}

}  // namespace attune
