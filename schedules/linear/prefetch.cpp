// SPDX-License-Identifier: MIT
// Software prefetch of the operands of linear layers.
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/linear/linear_schedules.h"
#include <algorithm>

namespace attune {
using namespace Halide;

namespace {

void require_depth(const WeightPrefetch &p, const PanelParameters &parameters, const std::string &step_name, int step) {
    require(!p.in_runs || p.depth == parameters.depth_block,
            "prefetch_runs is for prefetch_depth of a depth block, " + std::to_string(parameters.depth_block));
    require_multiple("prefetch_depth", p.depth, step_name, step);
}

[[noreturn]] void refuse() {
    require(false, "prefetch_depth is for weights that are read by blocks or, for few rows, by AMX tiles");
    std::abort();
}

int lines_of(const ImageParam &input, int depth) { return depth * input.type().bytes() / cache_line_bytes; }

LoweredLoop task_of(const LinearSums &s, Func out) { return {out, 0, s.n.name()}; }

// Weights that are packed, step by step of the panel's depth. Runs are spread over the loops of the sums of a depth block,
// `spread`, and over register tiles and the loop of a register tile's sums.
void prefetch_panel(const LinearSums &s, Func panel, Func out, Passes &passes, const PanelParameters &parameters,
                    const WeightPrefetch &p, int step, int sums_of_depth_block, std::vector<PrefetchRuns::Spread> spread) {
    const LoweredLoop loop{panel, 0, s.k.name()};
    if (!p.in_runs) return passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, p.depth / step}});
    require(parameters.tile_depth_blocks == 1, "prefetch_runs of panels is for tile_depth_blocks 1 and no widened pairs");
    constexpr int rows_at_least = 16;
    const int tiles_at_least = std::max(rows_at_least / parameters.tile_rows, 1);
    spread.push_back({{s.product, 1, s.m.name()}, tiles_at_least, true});
    spread.push_back({{s.partial, 1, s.partial_k.name()}, sums_of_depth_block});
    const LoweredLoop depth_blocks{s.product, 1, s.product_depth_block.name()};
    passes.prefetches.push_back(
        {p.weight, PrefetchRuns{loop, lines_of(p.weight, p.depth), {depth_blocks, task_of(s, out)}, spread}});
}

LoweredLoop whole_blocks(Func partial, const std::vector<BlockSum> &sums) {
    return {partial, RowStages::whole_blocks + 1, sums[RowStages::whole_blocks].block.name()};
}

// Blocks of weights for few rows, by the loop that sums whole blocks.
void prefetch_blocks(Passes &passes, const PanelParameters &parameters, const WeightPrefetch &p, const LoweredLoop &loop,
                     const std::vector<LoweredLoop> &around) {
    const int blocks = p.depth / parameters.block;
    if (!p.in_runs) return passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, blocks}});
    passes.prefetches.push_back({p.weight, PrefetchRuns{loop, lines_of(p.weight, p.depth), around, {{loop, blocks}}}});
}

}  // namespace

void prefetch_weights(LinearSums &, Func, Passes &, const PanelParameters &, const WeightPrefetch &p) {
    if (p.depth > 0) refuse();
}

void prefetch_weights(PanelStages &s, Func out, Passes &passes, const PanelParameters &parameters, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, parameters, "the depth of a block", parameters.block);
    prefetch_panel(s, s.panel, out, passes, parameters, p, parameters.block, parameters.depth_block, {});
}

void prefetch_weights(WidenedPanelStages &s, Func out, Passes &passes, const PanelParameters &parameters,
                      const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, parameters, "the depth of a block", parameters.block);
    require(!p.in_runs, "prefetch_runs of panels is for tile_depth_blocks 1 and no widened pairs");
    prefetch_panel(s, s.panel, out, passes, parameters, p, parameters.block, 0, {});
}

void prefetch_weights(Bf16DotPanelStages &s, Func out, Passes &passes, const PanelParameters &parameters,
                      const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    const int step = 2 * parameters.block;
    require_depth(p, parameters, "the depth of a block", step);
    std::vector<PrefetchRuns::Spread> spread;
    if (parameters.accumulators > 1) spread.push_back({{s.product, 1, s.product_accumulator.name()}, parameters.accumulators});
    prefetch_panel(s, s.panel, out, passes, parameters, p, step, parameters.depth_block / (2 * parameters.accumulators),
                   spread);
}

void prefetch_weights(AmxStages &s, Func out, Passes &passes, const PanelParameters &parameters, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (!s.transpose) refuse();
    require_depth(p, parameters, "the depth of a block", parameters.block);
    prefetch_panel(s, s.panel, out, passes, parameters, p, parameters.block, parameters.depth_block, {});
}

void prefetch_weights(RowStages &s, Func out, Passes &passes, const PanelParameters &parameters, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    require_depth(p, parameters, "the depth of a block", parameters.block);
    const LoweredLoop columns{s.product, 1, s.n.name()}, depth_blocks{s.product, 1, s.product_depth_block.name()};
    prefetch_blocks(passes, parameters, p, whole_blocks(s.partial, s.block_sums), {depth_blocks, columns, task_of(s, out)});
}

void prefetch_weights(InterleavedRowStages &s, Func out, Passes &passes, const PanelParameters &parameters,
                      const WeightPrefetch &p) {
    if (p.depth == 0) return;
    require_depth(p, parameters, "the depth of a block", parameters.block);
    const LoweredLoop columns{s.product, 1, s.n.name()}, depth_blocks{s.product, 1, s.group.product_group.name()};
    prefetch_blocks(passes, parameters, p, whole_blocks(s.group.partial, s.group.block_sums),
                    {columns, depth_blocks, task_of(s, out)});
}

// The whole depth blocks of each row, or the lines of a few rounds later.
void prefetch_weights(Bf16DotLineStages &s, Func out, Passes &passes, const PanelParameters &parameters,
                      const WeightPrefetch &p) {
    if (p.depth == 0) return;
    const int step = 2 * parameters.block;
    require_depth(p, parameters, "the depth of a block", step);
    std::vector<LoweredLoop> reads;
    for (const auto &whole : s.whole_depth_blocks) reads.push_back({whole.partial, 1, whole.lines.line.name()});
    if (!p.in_runs) {
        for (const LoweredLoop &loop : reads)
            passes.prefetches.push_back({p.weight, PrefetchLines{loop, loop, p.depth / step}});
        return;
    }
    const LoweredLoop columns{out, 0, s.n.name() + ".ni"}, task{out, 0, s.n.name() + ".no"};
    const Expr lines_of_row = p.weight.dim(0).extent() / parameters.depth_block * lines_of(p.weight, parameters.depth_block);
    passes.prefetches.push_back({p.weight, PrefetchRows{reads, lines_of_row, {columns, task}}});
}

void prefetch_weights(AmxWeightStages &s, Func, Passes &passes, const PanelParameters &parameters, const WeightPrefetch &p) {
    if (p.depth == 0) return;
    if (s.panel.defined()) refuse();
    require_depth(p, parameters, "the depth of an AMX tile", amx_tile_depth);
    const int rounds = p.depth / amx_tile_depth;
    passes.prefetches.push_back({p.weight, PrefetchRegion{s.partial.update(), s.partial_tile, rounds}});
}

void prefetch_rows(PanelStages &s, Func out, Passes &passes, const ImageParam &x, const PanelParameters &parameters) {
    require(!s.x_rows.defined(), "prefetch_tiles is for x of the type that is summed");
    require(parameters.tile_depth_blocks <= 1, "prefetch_tiles is for tile_depth_blocks 0 and 1");
    const bool by_depth_blocks = parameters.tile_depth_blocks > 0;
    const LoweredLoop depth_blocks{s.product, 1, s.product_depth_block.name()}, task = task_of(s, out);
    const LoweredLoop tiles = by_depth_blocks ? LoweredLoop{s.product, 1, s.m.name()} : LoweredLoop{out, 0, s.m.name()};
    const std::vector<LoweredLoop> around =
        by_depth_blocks ? std::vector{tiles, depth_blocks, task} : std::vector{depth_blocks, tiles, task};
    const LoweredLoop sums{s.partial, 1, s.partial_k.name()};
    passes.prefetches.push_back(
        {x, PrefetchRuns{sums, lines_of(x, parameters.depth_block), around, {{sums, parameters.depth_block}}}});
}

}  // namespace attune
