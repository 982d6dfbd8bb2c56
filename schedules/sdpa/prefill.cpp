// One task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout, nothing
// of them is packed, and the softmax of a row needs no operation across lanes. A chunk's scores stay in L1 or L2 between
// the two products.
#include "schedules/require.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

void schedule_prefill(SdpaStages &s, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    const Type type = s.query_t.type();
    const int lanes = target.natural_vector_size(type);
    require_multiple("tile_q", tuning.tile_q, "the vector width", lanes);
    require(tuning.tile_q > 0, "tile_q must be given");
    require_multiple("chunk", tuning.chunk, "key_tile", tuning.key_tile);
    if (const auto size = Internal::as_const_int(value_dim))
        require_multiple("the head size", static_cast<int>(*size), "channel_tile", tuning.channel_tile);
    const Var r = s.r, k = s.k, c = s.c, d = s.d, t = s.t, i = s.i, h = s.h, b = s.b;
    Var task("task"), row("row"), dO("do"), di("di");
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    // Constant extents, or stages would get heap storage and strides known at run time only.
    auto lanes_are_rows = [&](Func f) -> Func { return one_task(f).vectorize(r, lanes); };
    schedule_prepared(s.prepared, lanes);

    // Tasks. Guarded, because the last tile of queries may be ragged.
    out.split(i, t, row, tuning.tile_q, TailStrategy::GuardWithIf)
        .reorder(d, row, t, h, b)
        .fuse(t, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(d, lanes, TailStrategy::GuardWithIf);
    s.query_t.compute_at(out, task);
    lanes_are_rows(s.query_t).unroll(d, 4, TailStrategy::GuardWithIf);
    for (Func f : {s.row_begin, s.row_end}) lanes_are_rows(f.compute_at(out, task));

    // Merge, once per task. Weighted values are summed over the chunks in registers, a few channels at a time.
    for (Func f : {s.total_max, s.total_sum, s.chunk_scale, s.lse}) lanes_are_rows(f.compute_at(out, task));
    s.total_max.update().vectorize(r, lanes);
    s.total_sum.update().vectorize(r, lanes);
    s.normalised.compute_at(out, task).split(d, dO, di, tuning.channel_tile, TailStrategy::RoundUp).reorder(r, di, dO);
    lanes_are_rows(s.normalised).unroll(r).unroll(di);
    lanes_are_rows(s.total_mixed.compute_at(s.normalised, dO)).unroll(r).unroll(d);
    s.total_mixed.update().reorder(r, d, s.mixed_chunk).vectorize(r, lanes).unroll(r).unroll(d);

    // What leaves a chunk shares one loop over chunks: full ones first, then those that a mask touches.
    int stage = 0;
    for (const auto &[p, chunk] : {std::pair(s.full, s.full_chunk), std::pair(s.part, s.part_chunk)}) {
        Stage mixed = s.chunk_mixed.update(stage), sum = s.chunk_sum.update(stage), max = s.chunk_max.update(stage);
        mixed.split(d, dO, di, tuning.channel_tile).reorder(r, di, dO, chunk, t, h, b).vectorize(r, lanes).unroll(r).unroll(di);
        for (Stage f : {sum, max}) f.reorder(r, chunk, t, h, b).vectorize(r, lanes).unroll(r);
        sum.compute_with(mixed, chunk);
        max.compute_with(sum, chunk);

        // Second product: a register tile of tile_q rows by channel_tile channels.
        SdpaPartials q = p;
        lanes_are_rows(q.mixed.compute_at(s.chunk_mixed, dO)).unroll(r).unroll(d);
        for (std::size_t n = 0; n < q.mixed_keys.size(); n++) {
            auto m = q.mixed.update(int(n))
                         .reorder(r, d, q.mixed_keys[n].key, q.mixed_keys[n].block)
                         .vectorize(r, lanes)
                         .unroll(r)
                         .unroll(d);
            if (stage) m.unroll(q.mixed_keys[n].key);
        }
        if (q.wide_value.defined())
            one_task(q.wide_value.compute_at(s.chunk_mixed, chunk)).vectorize(d, lanes, TailStrategy::GuardWithIf);

        // Softmax of the chunk.
        lanes_are_rows(q.row_max.compute_at(s.chunk_mixed, chunk).bound_extent(c, 1)).unroll(r);
        q.row_max.update().reorder(r, q.max_keys.key, q.max_keys.block).vectorize(r, lanes).unroll(r);
        lanes_are_rows(q.row_sum.compute_at(s.chunk_mixed, chunk).bound_extent(c, 1)).unroll(r);
        q.row_sum.update().reorder(r, q.sum_keys.key, q.sum_keys.block).vectorize(r, lanes).unroll(r);
        one_task(q.weight.compute_at(s.chunk_mixed, chunk));
        q.weight.update(0).reorder(r, q.weight_keys.key, q.weight_keys.block).vectorize(r, lanes).unroll(r);

        if (q.dropped.defined()) {
            Var four("four_of_keys"), in_four("in_four"), block("row_block"), lane("lane");
            q.dropped.compute_at(s.chunk_mixed, chunk)
                .split(k, four, in_four, 4)
                .split(r, block, lane, lanes)
                .reorder(lane, in_four, block, four)
                .vectorize(lane)
                .unroll(in_four);
            one_task(q.dropped);
            q.random.compute_at(q.dropped, block).vectorize(r, lanes);
        }
        schedule_scores(s, q, s.chunk_mixed, chunk, lanes, one_task);
        stage++;
    }
    for (Func f : {s.chunk_mixed, s.chunk_sum, s.chunk_max}) one_task(f.compute_at(out, task));
}

}  // namespace attune
