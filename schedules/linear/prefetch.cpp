// SPDX-License-Identifier: MIT
// Software prefetch of the operands of linear layers.
#include "lowering/require.h"
#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include <algorithm>

namespace attune {
using namespace Halide;

namespace {

void require_depth(const WeightPrefetch &p, const PanelTuning &tuning, const std::string &step_name, int step) {
    require(!p.in_runs || p.depth == tuning.chunk,
            "prefetch_runs is for prefetch_depth of a chunk, " + std::to_string(tuning.chunk));
    require_multiple("prefetch_depth", p.depth, step_name, step);
}

[[noreturn]] void refuse() {
    require(false, "prefetch_depth is for weights that are read by blocks or, for few rows, by matrix tiles");
    std::abort();
}

int lines_of(const ImageParam &input, int depth) { return depth * input.type().bytes() / cache_line_bytes; }

LoweredLoop task_of(const LinearSums &s, Func out) { return {out, 0, s.n.name()}; }

// Weights that are packed, step by step of the panel's depth. around_sums: the loops of the sums of a chunk, over which runs
// are spread; register tiles and the loop of a register tile's sums are theirs, too.
void prefetch_panel(const LinearSums &s, Func panel, Func out, Passes &passes, const PanelTuning &tuning,
                    const WeightPrefetch &p, int step, int sums_of_chunk, std::vector<PrefetchRuns::Spread> spread) {
    const LoweredLoop loop{panel, 0, s.k.name()};
    if (!p.in_runs) return passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, p.depth / step}});
    require(tuning.tile_chunks == 1, "prefetch_runs of panels is for tile_chunks 1 and no widened pairs");
    constexpr int rows_at_least = 16;
    const int tiles_at_least = std::max(rows_at_least / tuning.tile_rows, 1);
    spread.push_back({{s.product, 1, s.m.name()}, tiles_at_least, true});
    spread.push_back({{s.partial, 1, s.partial_k.name()}, sums_of_chunk});
    const LoweredLoop chunks{s.product, 1, s.product_chunk.name()};
    passes.prefetches.push_back({p.weight, PrefetchRuns{loop, lines_of(p.weight, p.depth), {chunks, task_of(s, out)}, spread}});
}

LoweredLoop whole_blocks(Func partial, const std::vector<BlockSum> &sums) {
    return {partial, RowStages::whole_blocks + 1, sums[RowStages::whole_blocks].block.name()};
}

// Blocks of few rows, by the loop that sums whole ones.
void prefetch_blocks(Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p, const LoweredLoop &loop,
                     const std::vector<LoweredLoop> &around) {
    const int blocks = p.depth / tuning.block;
    if (!p.in_runs) return passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, blocks}});
    passes.prefetches.push_back({p.weight, PrefetchRuns{loop, lines_of(p.weight, p.depth), around, {{loop, blocks}}}});
}

}  // namespace

void prefetch_weights(LinearSums &, Func, Passes &, const PanelTuning &, const WeightPrefetch &p) {
    if (p.depth > 0) refuse();
}

void prefetch_weights(PanelStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, tuning, "the depth of a block", tuning.block);
    prefetch_panel(s, s.panel, out, passes, tuning, p, tuning.block, tuning.chunk, {});
}

void prefetch_weights(WidenedPanelStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, tuning, "the depth of a block", tuning.block);
    require(!p.in_runs, "prefetch_runs of panels is for tile_chunks 1 and no widened pairs");
    prefetch_panel(s, s.panel, out, passes, tuning, p, tuning.block, 0, {});
}

void prefetch_weights(Bf16DotPanelStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    const int step = 2 * tuning.block;
    require_depth(p, tuning, "the depth of a block", step);
    std::vector<PrefetchRuns::Spread> spread;
    if (tuning.accumulators > 1) spread.push_back({{s.product, 1, s.product_accumulator.name()}, tuning.accumulators});
    prefetch_panel(s, s.panel, out, passes, tuning, p, step, tuning.chunk / (2 * tuning.accumulators), spread);
}

void prefetch_weights(AmxStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, tuning, "the depth of a block", tuning.block);
    prefetch_panel(s, s.panel, out, passes, tuning, p, tuning.block, tuning.chunk, {});
}

void prefetch_weights(RowStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    require_depth(p, tuning, "the depth of a block", tuning.block);
    const LoweredLoop columns{s.product, 1, s.n.name()}, chunks{s.product, 1, s.product_chunk.name()};
    prefetch_blocks(passes, tuning, p, whole_blocks(s.partial, s.block_sums), {chunks, columns, task_of(s, out)});
}

void prefetch_weights(InterleavedRowStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    require_depth(p, tuning, "the depth of a block", tuning.block);
    const LoweredLoop columns{s.product, 1, s.n.name()}, chunks{s.product, 1, s.group.product_group.name()};
    prefetch_blocks(passes, tuning, p, whole_blocks(s.group.partial, s.group.block_sums), {columns, chunks, task_of(s, out)});
}

// The whole chunks of each row, or the lines of some rounds later.
void prefetch_weights(Bf16DotLineStages &s, Func out, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    const int step = 2 * tuning.block;
    require_depth(p, tuning, "the depth of a block", step);
    std::vector<LoweredLoop> reads;
    for (const auto &whole : s.whole_chunks) reads.push_back({whole.partial, 1, whole.lines.line.name()});
    if (!p.in_runs) {
        for (const LoweredLoop &loop : reads)
            passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, p.depth / step}});
        return;
    }
    const LoweredLoop columns{out, 0, s.n.name() + ".ni"}, task{out, 0, s.n.name() + ".no"};
    const Expr lines_of_row = p.weight.dim(0).extent() / tuning.chunk * lines_of(p.weight, tuning.chunk);
    passes.prefetches.push_back({p.weight, PrefetchRows{reads, lines_of_row, {columns, task}}});
}

void prefetch_weights(AmxWeightStages &s, Func, Passes &passes, const PanelTuning &tuning, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (s.panel.defined()) refuse();
    require_depth(p, tuning, "the depth of a matrix tile", matrix_tile_depth);
    const int rounds = p.depth / matrix_tile_depth;
    passes.prefetches.push_back({p.weight, PrefetchRegion{s.partial.update(), s.partial_tile, rounds}});
}

void prefetch_rows(PanelStages &s, Func out, Passes &passes, const ImageParam &x, const PanelTuning &tuning) {
    require(!s.x_rows.defined(), "prefetch_tiles is for x of the type that is summed");
    require(tuning.tile_chunks <= 1, "prefetch_tiles is for tile_chunks 0 and 1");
    const bool chunk_by_chunk = tuning.tile_chunks > 0;
    const LoweredLoop chunks{s.product, 1, s.product_chunk.name()}, task = task_of(s, out);
    const LoweredLoop tiles = chunk_by_chunk ? LoweredLoop{s.product, 1, s.m.name()} : LoweredLoop{out, 0, s.m.name()};
    const std::vector<LoweredLoop> around =
        chunk_by_chunk ? std::vector{tiles, chunks, task} : std::vector{chunks, tiles, task};
    const LoweredLoop sums{s.partial, 1, s.partial_k.name()};
    passes.prefetches.push_back({x, PrefetchRuns{sums, lines_of(x, tuning.chunk), around, {{sums, tuning.chunk}}}});
}

}  // namespace attune
