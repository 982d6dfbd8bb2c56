// SPDX-License-Identifier: MIT
// One task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout, nothing
// of them is packed, and the softmax of a row needs no operation across lanes. A chunk's scores stay in L1 or L2 between
// the two products.
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <algorithm>

namespace attune {
using namespace Halide;

// The register tiles whose channels share a cache line of values.
static int tiles_of_line(const Type &value, int channel_tile) {
    return std::max(cache_line_bytes / value.bytes() / channel_tile, 1);
}

int line_channels_of(const PrefillTuning &tuning, const Type &value, const Type &weight) {
    constexpr int much_of_first_cache = 16 * 1024;
    const bool fill_much = tuning.chunk * tuning.tile_q * weight.bytes() >= much_of_first_cache;
    return value != weight && fill_much ? tiles_of_line(value, tuning.channel_tile) * tuning.channel_tile : 0;
}

ScheduleHints hints_for_prefill(const PrefillTuning &tuning, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(tuning.tile_q, tuning.chunk, kernel);
    hints.widens_by_line = tuning.line_channels > 0;
    hints.query_block = hints.out_block = query_block_of(tuning.tile_q, tuning.chunk, kernel);
    hints.joins_passes = true;
    hints.whole_blocks = !kernel.reads_tables;  // a table may mask any key: no block is known to be whole
    return hints;
}

void schedule_prefill(SdpaStages &s, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(tuning, lanes, value_dim);
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    const TileLoops loops = schedule_tiles(s, out, tuning, lanes, one_task);
    schedule_query(s, {out, loops.task}, lanes, one_task);
    for (const bool full : {true, false}) {
        SdpaPartials p = full ? s.full : s.part;
        const OneTask one_chunk = one_chunk_of(s, tuning.tile_q);
        const LoopLevel chunk(s.chunk_mixed, full ? s.full_chunk : s.part_chunk);
        schedule_chunk(s, p, chunk, {s.chunk_mixed, loops.channels}, !full, lanes, one_chunk);
        if (tuning.line_channels > 0)
            one_chunk(p.wide_value.compute_at(s.chunk_mixed, loops.lines).bound_storage(s.d, tuning.line_channels))
                .vectorize(s.d, lanes, TailStrategy::PredicateLoads);
        else if (p.wide_value.defined())
            one_chunk(p.wide_value.compute_at(chunk)).vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    }
}

void fetch_next_tiles(const SdpaStages &s, Passes &passes, const ImageParam &key, const ImageParam &value, int channel_tile) {
    for (const bool full : {true, false}) {
        const SdpaPartials &p = full ? s.full : s.part;
        const LoweredLoop channels{s.chunk_mixed, full ? 1 : 2, s.d.name()};
        require(!p.wide_key.defined() && !p.wide_value.defined(), "prefetch_tiles is for inputs of the type that is summed");
        passes.prefetches.push_back(
            {key, PrefetchLines{{p.score, 1, p.channel.name()}, {p.logit, 1, p.logit_keys.block.name()}, 1}});
        int update = 0;
        for (const KeyLoop &keys : p.mixed_keys)
            passes.prefetches.push_back({value, PrefetchLines{{p.mixed, ++update, (full ? keys.key : keys.block).name()},
                                                              channels,
                                                              tiles_of_line(value.type(), channel_tile)}});
    }
}

void fetch_tables(const SdpaStages &s, Passes &passes, const ImageParam &table, const std::string &name, const Expr &given,
                  const PrefillTuning &tuning) {
    const SdpaPartials &p = s.part;  // a table may mask any key: no chunk is known to be seen whole
    const LoweredLoop chunk{s.chunk_mixed, 2, s.part_chunk.name()}, keys{p.logit, 1, p.logit_keys.block.name()};
    const int lines = std::max(tuning.chunk * table.type().bytes() / cache_line_bytes, 1);
    for (const ScoreUpdate &step : p.steps) {
        if (std::count(step.table_names.begin(), step.table_names.end(), name) == 0) continue;
        const LoweredLoop reads{p.logit, step.update + 1, step.keys.block.name()};
        passes.prefetches.push_back(
            {table, PrefetchRuns{reads, lines, {chunk}, {{keys, tuning.chunk / tuning.key_tile}}, given}});
    }
}

void fetch_next_queries(const SdpaStages &s, Func out, Passes &passes, const ImageParam &query, int head_dim) {
    require(head_dim > 0, "prefetch_queries is for a head size that is known, head_dim is 0");
    require(s.query_blocks.has_value(), "prefetch_queries is for head sizes and tile_q that blocks divide");
    constexpr int blocks_at_least = 8;  // of keys, over which they are fetched
    const LoweredLoop channels{s.query_t, 0, s.d.name()}, task{out, 0, s.i.name()};
    const int lines = (head_dim * query.type().bytes() + cache_line_bytes - 1) / cache_line_bytes;
    for (const bool full : {true, false}) {
        const SdpaPartials &p = full ? s.full : s.part;
        const LoweredLoop chunk{s.chunk_mixed, full ? 1 : 2, (full ? s.full_chunk : s.part_chunk).name()};
        passes.prefetches.push_back({query, PrefetchRuns{channels,
                                                         lines,
                                                         {task},
                                                         {{chunk, 1},
                                                          {{p.logit, 1, p.logit_keys.block.name()}, blocks_at_least, true},
                                                          {{p.score, 1, p.channel.name()}, head_dim}}}});
    }
}

}  // namespace attune
