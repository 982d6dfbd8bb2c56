// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/sdpa/backward_schedules.h"

namespace attune {
using namespace Halide;

void schedule_backward_terms(BackwardStages &s, const std::vector<Func> &outputs, const BackwardParameters &parameters,
                             const Target &target) {
    const int lanes = target.natural_vector_size(s.key_t.type());
    require_parameters(parameters, lanes);
    require_multiple("tile_q", parameters.tile_q, "term_queries", parameters.term_queries);
    require_multiple("kv_block", parameters.kv_block, "term_keys", parameters.term_keys);
    const Var r = s.r, t = s.t, q = s.q, u = s.u, d = s.d, h = s.h;
    Var dO("do"), di("di"), ro("ro"), ri("ri");
    for (Func f : outputs) f.compute_root().vectorize(d, lanes, TailStrategy::GuardWithIf);
    schedule_rows_and_totals(s, parameters, lanes);
    schedule_key_columns(s, parameters, lanes);
    schedule_magnitudes(s, lanes);
    s.query_total.bound(q, 0, parameters.tile_q);
    s.key_total.bound(r, 0, parameters.kv_block), s.value_total.bound(r, 0, parameters.kv_block);
    for (const bool full : {true, false}) {
        const int stage = full ? 0 : 1;
        BackwardTile &p = full ? s.full : s.partial;
        const BackwardStages::Loops &loops = full ? s.full_tiles : s.partial_tiles;
        auto in_order = [&](Stage update, std::vector<VarOrRVar> inner) {
            for (const VarOrRVar &tile : {loops.query_tile, loops.head, loops.key_tile}) inner.push_back(tile);
            update.reorder(inner);
        };
        for (Func total : {s.query_total, s.key_total, s.weight_total}) {
            if (!total.defined()) continue;
            Stage update = total.update(stage).split(d, dO, di, lanes, TailStrategy::RoundUp);
            in_order(update, {di, loops.key, loops.query, loops.key_block, loops.query_block, dO});
            update.vectorize(di).unroll(loops.key).unroll(loops.query).never_partition_all();
            if (total.name() != s.query_total.name()) update.compute_with(s.query_total.update(stage), loops.key_block);
        }
        p.term.compute_at(s.query_total, loops.key_block).bound_extent(d, lanes);
        for (const Var &v : {u, h, t}) p.term.bound_extent(v, 1);
        p.term.vectorize(d, lanes).unroll(r).unroll(q);

        Stage value = s.value_total.update(stage);
        value.split(d, dO, di, parameters.channel_vectors * lanes, TailStrategy::RoundUp).split(r, ro, ri, parameters.row_tile);
        in_order(value, {di, ri, ro, dO, loops.key, loops.query, loops.key_block, loops.query_block});
        value.vectorize(di, lanes).unroll(di).unroll(ri).never_partition_all();
        value.compute_with(s.query_total.update(stage), loops.query_tile);
        schedule_tile_sum(s, full ? s.full.value_sum : s.partial.value_sum, {s.value_total, ro}, parameters, lanes);
        schedule_backward_scores(s, p, {s.query_total, loops.query_tile}, parameters, lanes);
    }
}

}  // namespace attune
