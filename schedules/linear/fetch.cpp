#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include <algorithm>

namespace attune {
using namespace Halide;

// Of few rows of pairs: the whole chunks of each row, or the lines of some rounds later.
static void fetch_whole_chunks(const LinearStages &s, Func out, Passes &passes, const ImageParam &weight, int chunk, int rounds,
                               bool in_rows) {
    std::vector<LoweredLoop> reads;
    for (const LinearStages::WholeChunks &whole : s.whole_chunks) reads.push_back({whole.partial, 1, whole.lines.line.name()});
    if (!in_rows) {
        for (const LoweredLoop &loop : reads) passes.prefetches.push_back({weight, PrefetchLines{loop, loop, rounds}});
        return;
    }
    const int lines_of_chunk = chunk * weight.type().bytes() / cache_line_bytes;
    const LoweredLoop columns{out, 0, s.n.name() + ".ni"}, task{out, 0, s.n.name() + ".no"};
    passes.prefetches.push_back(
        {weight, PrefetchRows{reads, weight.dim(0).extent() / chunk * lines_of_chunk, {columns, task}}});
}

void fetch_weights_ahead(LinearStages &s, Func out, Passes &passes, const ImageParam &weight, const PanelTuning &tuning,
                         int depth, bool in_runs) {
    require(!in_runs || depth == tuning.chunk,
            "prefetch_runs is for prefetch_depth of a chunk, " + std::to_string(tuning.chunk));
    if (depth == 0) return;
    const bool by_tiles = s.x_pairs.defined() && !s.panel.defined(), by_lines = s.lines.has_value();
    const bool by_blocks = !s.block_sums.empty(), by_panels = !by_lines && s.panel.defined() && s.transpose;
    require(!(in_runs && by_panels) || (tuning.tile_chunks == 1 && !(s.in_strands && s.widened)),
            "prefetch_runs of panels is for tile_chunks 1 and no widened pairs");
    require(by_tiles || by_lines || by_blocks || by_panels,
            "prefetch_depth is for weights that are read by blocks or, for few rows, by matrix tiles");
    const int step = by_tiles ? matrix_tile_depth : s.in_pairs && !s.widened ? 2 * tuning.block : tuning.block;
    require_multiple("prefetch_depth", depth, by_tiles ? "the depth of a matrix tile" : "the depth of a block", step);
    if (by_tiles) {
        fetch_ahead(s.partial.update(), weight, s.partial_tile, depth / step);
        passes.prefetch_into_all_caches = true;
        return;
    }
    auto whole_blocks = [](Func partial, const std::vector<LinearStages::BlockSum> &sums) {
        return LoweredLoop{partial, LinearStages::whole_blocks + 1, sums[LinearStages::whole_blocks].block.name()};
    };
    if (by_lines) return fetch_whole_chunks(s, out, passes, weight, tuning.chunk, depth / step, in_runs);
    const LoweredLoop loop = by_panels   ? LoweredLoop{s.panel, 0, s.k.name()}
                             : s.abreast ? whole_blocks(s.abreast->partial, s.abreast->block_sums)
                                         : whole_blocks(s.partial, s.block_sums);
    if (!in_runs) return passes.prefetches.push_back({weight, PrefetchLines{loop, loop, depth / step}});
    const int lines = depth * weight.type().bytes() / cache_line_bytes;
    const LoweredLoop columns{s.product, 1, s.n.name()}, task{out, 0, s.n.name()};
    const LoweredLoop chunks{s.product, 1, (s.abreast ? s.abreast->product_group : s.product_chunk).name()};
    if (by_panels) {
        constexpr int rows_at_least = 16;
        const int tiles_at_least = std::max(rows_at_least / tuning.tile_rows, 1);
        std::vector<PrefetchRuns::Spread> spread;
        if (s.in_strands) spread.push_back({{s.product, 1, s.product_strand.name()}, tuning.strands});
        spread.push_back({{s.product, 1, s.m.name()}, tiles_at_least, true});
        spread.push_back({{s.partial, 1, s.partial_k.name()}, tuning.chunk / (s.in_pairs ? 2 * tuning.strands : 1)});
        passes.prefetches.push_back({weight, PrefetchRuns{loop, lines, {chunks, task}, spread}});
    } else {
        const std::vector<LoweredLoop> around =
            s.abreast ? std::vector{columns, chunks, task} : std::vector{chunks, columns, task};
        passes.prefetches.push_back({weight, PrefetchRuns{loop, lines, around, {{loop, depth / step}}}});
    }
}

void fetch_rows_ahead(LinearStages &s, Func out, Passes &passes, const ImageParam &x, const PanelTuning &tuning) {
    require(!s.x_rows.defined(), "prefetch_tiles is for x of the type that is summed");
    require(tuning.tile_chunks <= 1, "prefetch_tiles is for tile_chunks 0 and 1");
    const bool chunk_by_chunk = tuning.tile_chunks > 0;
    const LoweredLoop chunks{s.product, 1, s.product_chunk.name()}, task{out, 0, s.n.name()};
    const LoweredLoop tiles = chunk_by_chunk ? LoweredLoop{s.product, 1, s.m.name()} : LoweredLoop{out, 0, s.m.name()};
    const std::vector<LoweredLoop> around =
        chunk_by_chunk ? std::vector{tiles, chunks, task} : std::vector{chunks, tiles, task};
    const int lines = tuning.chunk * x.type().bytes() / cache_line_bytes;
    const LoweredLoop sums{s.partial, 1, s.partial_k.name()};
    passes.prefetches.push_back({x, PrefetchRuns{sums, lines, around, {{sums, tuning.chunk}}}});
}

}  // namespace attune
