// SPDX-License-Identifier: MIT
// Prefill with bf16 dot products. Each task packs the values of a KV block in pairs of keys: little work beside the products of
// a tile, and the memory is proportional to the KV block and not to the keys. A key's pairs of channels are read in place.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_bf16_dot(const PrefillParameters &parameters, const SdpaKernel &kernel) {
    return hints_for_tiles(parameters.tile_q, parameters.kv_block, kernel);
}

static void schedule_bf16_dot_softmax(const SdpaStages &s, const KvBlockStages &partials, const SdpaBf16DotStages::Pairs &pairs,
                                      const Var &e, const LoopLevel &kv_block, int lanes, const OneTask &one_task) {
    const Var r = s.r, c = s.c;
    KvBlockStages p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    lanes_are_rows(p.row_max.compute_at(kv_block).bound_extent(c, 1)).unroll(r);
    p.row_max.update().reorder(r, p.max_keys.key, p.max_keys.subblock).vectorize(r, lanes).unroll(r);
    lanes_are_rows(p.row_sum.compute_at(kv_block).bound_extent(c, 1)).unroll(r);
    Func pair_sum = pairs.pair_sum;
    one_task(pair_sum.compute_at(kv_block).bound(e, 0, 2)).vectorize(e).vectorize(r, lanes).unroll(r);
    pair_sum.update()
        .reorder(pairs.sum, r, p.sum_keys.key, p.sum_keys.subblock)
        .vectorize(pairs.sum)
        .vectorize(r, lanes)
        .unroll(r);
    one_task(p.weight.compute_at(kv_block).bound(e, 0, 2));
    // Both elements of the pairs of a vector of rows are rounded and interleaved at once.
    p.weight.update(0)
        .reorder(pairs.weight, r, p.weight_keys.key, p.weight_keys.subblock)
        .vectorize(pairs.weight)
        .vectorize(r, lanes)
        .unroll(r);
}

void schedule_bf16_dot(SdpaBf16DotStages &stages, Func out, const PrefillParameters &parameters, const Target &target,
                       Expr value_dim) {
    SdpaStages &s = stages.s;
    const int lanes = target.natural_vector_size(Float(32));
    require_tiles(parameters, lanes, value_dim);
    require_multiple("key_tile", parameters.key_tile, "the keys of a pair", 2);
    const Var e = stages.e, r = s.r, d = s.d, k = s.k;
    const OneTask one_task = one_task_of(s, parameters.tile_q);
    const TileLoops loops = schedule_tiles(s, out, parameters, lanes, one_task);
    one_task(s.query_t.compute_at(out, loops.task).bound(e, 0, 2)).vectorize(e).vectorize(r, lanes);

    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    // A sum over pairs in registers: one dot product for each pair.
    auto dot = [&](Stage f, const RVar &element) { f.atomic().vectorize(element).vectorize(r, lanes).unroll(r); };
    for (const bool full : {true, false}) {
        KvBlockStages p = full ? s.full : s.partial;
        const SdpaBf16DotStages::Pairs &pairs = full ? stages.full : stages.partial;
        const LoopLevel kv_block(s.block_pv, full ? s.full_block : s.partial_block);
        one_task(stages.packed_value.in(p.pv).compute_at(kv_block).bound(e, 0, 2))
            .bound_extent(k, parameters.kv_block / 2)
            .reorder(e, d, k)
            .vectorize(d, 2 * lanes, TailStrategy::GuardWithIf)
            .unroll(e);
        lanes_are_rows(p.pv.compute_at(s.block_pv, loops.channels)).unroll(r).unroll(d);
        for (std::size_t n = 0; n < p.pv_keys.size(); n++) {
            const KeyLoop &keys = p.pv_keys[n];
            dot(p.pv.update(int(n)).reorder(pairs.pv[n], r, d, keys.key, keys.subblock).unroll(d), pairs.pv[n]);
        }

        schedule_bf16_dot_softmax(s, p, pairs, e, kv_block, lanes, one_task);
        schedule_scores(s, p, kv_block, lanes, one_task);
        lanes_are_rows(p.qk.compute_at(p.score, p.score_keys.subblock)).unroll(r).unroll(k);
        dot(p.qk.update().reorder(pairs.channel, r, k, p.channel).unroll(k), pairs.channel);
    }
}

}  // namespace attune
