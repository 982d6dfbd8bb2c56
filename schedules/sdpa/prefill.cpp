// One task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout, nothing
// of them is packed, and the softmax of a row needs no operation across lanes. A chunk's scores stay in L1 or L2 between
// the two products.
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

void schedule_prefill(SdpaStages &s, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(tuning, lanes, value_dim);
    const Var r = s.r, k = s.k, c = s.c, d = s.d;
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    const TileLoops loops = schedule_tiles(s, out, tuning, lanes, one_task);
    s.query_t.compute_at(out, loops.task);
    lanes_are_rows(s.query_t).unroll(d, 4, TailStrategy::GuardWithIf);

    for (const auto &[partials, chunk] : {std::pair(s.full, s.full_chunk), std::pair(s.part, s.part_chunk)}) {
        SdpaPartials p = partials;
        const bool blocks = chunk.name() == s.part_chunk.name();
        // Second product: a register tile of tile_q rows by channel_tile channels.
        lanes_are_rows(p.mixed.compute_at(s.chunk_mixed, loops.channels)).unroll(r).unroll(d);
        for (std::size_t n = 0; n < p.mixed_keys.size(); n++) {
            const KeyLoop &keys = p.mixed_keys[n];
            Stage mixed = p.mixed.update(int(n)).reorder(r, d, keys.key, keys.block).vectorize(r, lanes).unroll(r).unroll(d);
            if (blocks) mixed.unroll(keys.key);
        }

        // Softmax of the chunk.
        lanes_are_rows(p.row_max.compute_at(s.chunk_mixed, chunk).bound_extent(c, 1)).unroll(r);
        p.row_max.update().reorder(r, p.max_keys.key, p.max_keys.block).vectorize(r, lanes).unroll(r);
        lanes_are_rows(p.row_sum.compute_at(s.chunk_mixed, chunk).bound_extent(c, 1)).unroll(r);
        p.row_sum.update().reorder(r, p.sum_keys.key, p.sum_keys.block).vectorize(r, lanes).unroll(r);
        one_task(p.weight.compute_at(s.chunk_mixed, chunk));
        p.weight.update(0).reorder(r, p.weight_keys.key, p.weight_keys.block).vectorize(r, lanes).unroll(r);
        if (p.dropped.defined()) {
            Var four("four_of_keys"), in_four("in_four"), block("row_block"), lane("lane");
            p.dropped.compute_at(s.chunk_mixed, chunk)
                .split(k, four, in_four, 4)
                .split(r, block, lane, lanes)
                .reorder(lane, in_four, block, four)
                .vectorize(lane)
                .unroll(in_four);
            one_task(p.dropped);
            p.random.compute_at(p.dropped, block).vectorize(r, lanes);
        }

        if (p.wide_value.defined())
            one_task(p.wide_value.compute_at(s.chunk_mixed, chunk)).vectorize(d, lanes, TailStrategy::GuardWithIf);
        schedule_scores(s, p, s.chunk_mixed, chunk, lanes, one_task);
    }
}

}  // namespace attune
