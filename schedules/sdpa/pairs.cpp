// SPDX-License-Identifier: MIT
// As prefill, with products of pairs of bf16. The values of a chunk are packed in pairs of keys by each task that reads them:
// beside the products of a tile that is little, and what is held follows the chunk and not the keys. A key's pairs of channels
// lie in memory as they are.
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

ScheduleHints hints_for_pairs(const PrefillTuning &tuning, const SdpaKernel &kernel) {
    return hints_for_tiles(tuning.tile_q, tuning.chunk, kernel);
}

static void schedule_pair_softmax(const SdpaStages &s, const SdpaPartials &partials, const PairStages::Pairs &pairs,
                                  const Var &e, const LoopLevel &chunk, int lanes, const OneTask &one_task) {
    const Var r = s.r, c = s.c;
    SdpaPartials p = partials;
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    lanes_are_rows(p.row_max.compute_at(chunk).bound_extent(c, 1)).unroll(r);
    p.row_max.update().reorder(r, p.max_keys.key, p.max_keys.block).vectorize(r, lanes).unroll(r);
    lanes_are_rows(p.row_sum.compute_at(chunk).bound_extent(c, 1)).unroll(r);
    Func pair_sum = pairs.pair_sum;
    one_task(pair_sum.compute_at(chunk).bound(e, 0, 2)).vectorize(e).vectorize(r, lanes).unroll(r);
    pair_sum.update()
        .reorder(pairs.sum, r, p.sum_keys.key, p.sum_keys.block)
        .vectorize(pairs.sum)
        .vectorize(r, lanes)
        .unroll(r);
    one_task(p.weight.compute_at(chunk).bound(e, 0, 2));
    // Both elements of the pairs of a vector of rows are rounded and interleaved at once.
    p.weight.update(0)
        .reorder(pairs.weight, r, p.weight_keys.key, p.weight_keys.block)
        .vectorize(pairs.weight)
        .vectorize(r, lanes)
        .unroll(r);
}

void schedule_pairs(PairStages &stages, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    SdpaStages &s = stages.s;
    const int lanes = target.natural_vector_size(Float(32));
    require_tiles(tuning, lanes, value_dim);
    require_multiple("key_tile", tuning.key_tile, "the keys of a pair", 2);
    const Var e = stages.e, r = s.r, d = s.d, k = s.k;
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    const TileLoops loops = schedule_tiles(s, out, tuning, lanes, one_task);
    one_task(s.query_t.compute_at(out, loops.task).bound(e, 0, 2)).vectorize(e).vectorize(r, lanes);

    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    // A sum over pairs in registers: one dot product for each pair.
    auto dot = [&](Stage f, const RVar &element) { f.atomic().vectorize(element).vectorize(r, lanes).unroll(r); };
    for (const bool full : {true, false}) {
        SdpaPartials p = full ? s.full : s.part;
        const PairStages::Pairs &pairs = full ? stages.full : stages.part;
        const LoopLevel chunk(s.chunk_mixed, full ? s.full_chunk : s.part_chunk);
        one_task(stages.packed_value.in(p.mixed).compute_at(chunk).bound(e, 0, 2))
            .bound_extent(k, tuning.chunk / 2)
            .reorder(e, d, k)
            .vectorize(d, 2 * lanes, TailStrategy::GuardWithIf)
            .unroll(e);
        lanes_are_rows(p.mixed.compute_at(s.chunk_mixed, loops.channels)).unroll(r).unroll(d);
        for (std::size_t n = 0; n < p.mixed_keys.size(); n++) {
            const KeyLoop &keys = p.mixed_keys[n];
            dot(p.mixed.update(int(n)).reorder(pairs.mixed[n], r, d, keys.key, keys.block).unroll(d), pairs.mixed[n]);
        }

        schedule_pair_softmax(s, p, pairs, e, chunk, lanes, one_task);
        schedule_logits(s, p, chunk, lanes, one_task);
        lanes_are_rows(p.score.compute_at(p.logit, p.logit_keys.block)).unroll(r).unroll(k);
        dot(p.score.update().reorder(pairs.channel, r, k, p.channel).unroll(k), pairs.channel);
    }
}

}  // namespace attune
