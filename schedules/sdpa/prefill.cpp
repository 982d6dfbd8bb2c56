// SPDX-License-Identifier: MIT
// Prefill: one task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout,
// without packing, and the softmax of a row needs no operation across lanes. A KV block's scores stay in L1 or L2 between the
// two products.
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <algorithm>

namespace attune {
using namespace Halide;

// Number of register tiles whose channels share a cache line of values.
static int tiles_of_line(const Type &value, int channel_tile) {
    return std::max(cache_line_bytes / value.bytes() / channel_tile, 1);
}

int line_channels_of(const PrefillParameters &parameters, const Type &value, const Type &weight) {
    constexpr int much_of_first_cache = 16 * 1024;
    const bool fill_much = parameters.kv_block * parameters.tile_q * weight.bytes() >= much_of_first_cache;
    return value != weight && fill_much ? tiles_of_line(value, parameters.channel_tile) * parameters.channel_tile : 0;
}

ScheduleHints hints_for_prefill(const PrefillParameters &parameters, const SdpaKernel &kernel) {
    ScheduleHints hints = hints_for_tiles(parameters.tile_q, parameters.kv_block, kernel);
    hints.widens_by_line = parameters.line_channels > 0;
    hints.query_block = hints.out_block = query_block_of(parameters.tile_q, parameters.kv_block, kernel);
    hints.joins_passes = true;
    hints.whole_blocks = !kernel.reads_tables;  // a table may mask any key: no block is known to be whole
    return hints;
}

void schedule_prefill(SdpaStages &s, Func out, const PrefillParameters &parameters, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(parameters, lanes, value_dim);
    const OneTask one_task = one_task_of(s, parameters.tile_q);
    const TileLoops loops = schedule_tiles(s, out, parameters, lanes, one_task);
    schedule_query(s, {out, loops.task}, lanes, one_task);
    for (const bool full : {true, false}) {
        KvBlockStages p = full ? s.full : s.partial;
        const OneTask one_kv_block = one_kv_block_of(s, parameters.tile_q);
        const LoopLevel kv_block(s.block_pv, full ? s.full_block : s.partial_block);
        schedule_kv_block(s, p, kv_block, {s.block_pv, loops.channels}, !full, lanes, one_kv_block);
        if (parameters.line_channels > 0)
            one_kv_block(p.wide_value.compute_at(s.block_pv, loops.lines).bound_storage(s.d, parameters.line_channels))
                .vectorize(s.d, lanes, TailStrategy::PredicateLoads);
        else if (p.wide_value.defined())
            one_kv_block(p.wide_value.compute_at(kv_block)).vectorize(s.d, lanes, TailStrategy::GuardWithIf);
    }
}

void fetch_next_tiles(const SdpaStages &s, Passes &passes, const ImageParam &key, const ImageParam &value, int channel_tile) {
    for (const bool full : {true, false}) {
        const KvBlockStages &p = full ? s.full : s.partial;
        const LoweredLoop channels{s.block_pv, full ? 1 : 2, s.d.name()};
        require(!p.wide_key.defined() && !p.wide_value.defined(), "prefetch_tiles is for inputs of the type that is summed");
        passes.prefetches.push_back(
            {key, PrefetchLines{{p.qk, 1, p.channel.name()}, {p.score, 1, p.score_keys.subblock.name()}, 1}});
        int update = 0;
        for (const KeyLoop &keys : p.pv_keys)
            passes.prefetches.push_back({value, PrefetchLines{{p.pv, ++update, (full ? keys.key : keys.subblock).name()},
                                                              channels,
                                                              tiles_of_line(value.type(), channel_tile)}});
    }
}

void fetch_tables(const SdpaStages &s, Passes &passes, const ImageParam &table, const std::string &name, const Expr &given,
                  const PrefillParameters &parameters) {
    const KvBlockStages &p = s.partial;  // a table may mask any key: no KV block is known to be seen whole
    const LoweredLoop kv_block{s.block_pv, 2, s.partial_block.name()}, keys{p.score, 1, p.score_keys.subblock.name()};
    const int lines = std::max(parameters.kv_block * table.type().bytes() / cache_line_bytes, 1);
    for (const ScoreUpdate &step : p.steps) {
        if (std::count(step.table_names.begin(), step.table_names.end(), name) == 0) continue;
        const LoweredLoop reads{p.score, step.update + 1, step.keys.subblock.name()};
        passes.prefetches.push_back(
            {table, PrefetchRuns{reads, lines, {kv_block}, {{keys, parameters.kv_block / parameters.key_tile}}, given}});
    }
}

void fetch_next_queries(const SdpaStages &s, Func out, Passes &passes, const ImageParam &query, int head_dim) {
    require(head_dim > 0, "prefetch_queries is for a head size that is known, head_dim is 0");
    require(s.query_blocks.has_value(), "prefetch_queries is for head sizes and tile_q that blocks divide");
    constexpr int blocks_at_least = 8;  // of keys, during which they are fetched
    const LoweredLoop channels{s.query_t, 0, s.d.name()}, task{out, 0, s.i.name()};
    const int lines = (head_dim * query.type().bytes() + cache_line_bytes - 1) / cache_line_bytes;
    for (const bool full : {true, false}) {
        const KvBlockStages &p = full ? s.full : s.partial;
        const LoweredLoop kv_block{s.block_pv, full ? 1 : 2, (full ? s.full_block : s.partial_block).name()};
        passes.prefetches.push_back({query, PrefetchRuns{channels,
                                                         lines,
                                                         {task},
                                                         {{kv_block, 1},
                                                          {{p.score, 1, p.score_keys.subblock.name()}, blocks_at_least, true},
                                                          {{p.qk, 1, p.channel.name()}, head_dim}}}});
    }
}

}  // namespace attune
