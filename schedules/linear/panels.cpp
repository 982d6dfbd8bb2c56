// Weights in panels: packed for a task, read by register tiles of rows by columns.
#include "schedules/linear/linear_schedules.h"
#include "schedules/require.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void require_block(int block, int lanes) {
    require(block == lanes, "block is " + std::to_string(block) + ", must be the vector width, " + std::to_string(lanes));
}

void schedule_panel(LinearStages &s, const LoopLevel &at, int columns, int block, int lanes) {
    const Var e = s.e, n = s.n, k = s.k;
    Var no("no"), ni("ni"), ko("ko"), ki("ki");
    s.panel.compute_at(at).bound_extent(n, columns);
    const bool in_pairs = s.panel.dimensions() == 5;
    if (in_pairs) s.panel.bound(e, 0, 2);
    if (s.transpose) {
        // Along k within a tile of columns: the addresses of its rows in memory are found once.
        s.panel.split(k, ko, ki, block, TailStrategy::RoundUp)
            .split(n, no, ni, block)
            .reorder(ni, ki, ko, no, s.h, s.b)
            .vectorize(ni)
            .unroll(ki);
        if (in_pairs) s.panel.reorder(e, ni).unroll(e);
        schedule_transpose(*s.transpose, LoopLevel(s.panel, ko));
    } else {
        // Whole rows as they lie. Not unrolled: only the last vector of a loop has to look where the columns end.
        s.panel.split(n, no, ni, lanes).vectorize(ni);
        if (in_pairs) s.panel.vectorize(e);
    }
}

// Of one row. Whole blocks go through registers alone; one of which the chunk has a part is summed from where it was transposed.
// Blocks of neighbouring columns take turns: the sums of one wait for each other while the next is transposed.
static void schedule_blocks_of_row(LinearStages &s, int lanes) {
    const Var e = s.e, n = s.n, m = s.m, k = s.k;
    Var no("no"), ni("ni");
    const LoopLevel of_block(s.partial, no);
    for (int update = 0; update < int(s.block_sums.size()); update++) {
        const auto &[element, term, block] = s.block_sums[update];
        Stage sums = s.partial.update(update);
        sums.split(n, no, ni, lanes).reorder(element, ni, term, no, m, block);
        if (s.in_pairs) sums.atomic().vectorize(element);
        sums.vectorize(ni).unroll(no);
        if (update == s.whole_blocks) sums.unroll(term);
    }
    schedule_transpose(*s.transpose, of_block);
    if (!s.in_pairs) return;
    for (const Var &v : {s.t, s.h, s.b}) s.panel.bound_extent(v, 1);
    s.panel.compute_at(of_block).store_in(MemoryType::Stack).bound(e, 0, 2).bound(k, 0, lanes).bound_extent(n, lanes);
    s.panel.reorder(e, n).unroll(e).vectorize(n).unroll(k);
}

void schedule_panels(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require(tuning.tile_columns > 0, "tile_columns must be given");
    require(tuning.tile_rows > 0, "tile_rows must be given");
    require(tuning.task_rows > 0, "task_rows must be given");
    require_multiple("tile_columns", tuning.tile_columns, "the vector width", lanes);
    require_multiple("task_rows", tuning.task_rows, "tile_rows", tuning.tile_rows);
    if (s.transpose) {
        require_block(tuning.block, lanes);
        require_multiple("chunk", tuning.chunk, "block", tuning.block);
    }
    const bool block_by_block = !s.block_sums.empty();
    require(tuning.tile_chunks == 1 || !(s.in_pairs || block_by_block),
            "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 1 here");
    const Var n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    Var task("task"), tile("tile"), no("no"), ni("ni"), mo("mo"), mi("mi");
    // Constant extents, or stages would get strides known at run time only; lanes are columns.
    auto lanes_are_columns = [&](Func f) -> Func { return f.bound_extent(n, tuning.tile_columns).vectorize(n, lanes); };

    // Tasks, columns first: neighbours share their rows of x.
    out.split(n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf);
    if (tuning.tile_chunks == 0)
        out.split(m, tile, mi, tuning.tile_rows, TailStrategy::GuardWithIf)
            .split(tile, mo, tile, tuning.task_rows / tuning.tile_rows, TailStrategy::GuardWithIf)
            .reorder(ni, mi, tile, no, mo, h, b);
    else
        out.split(m, mo, mi, tuning.task_rows, TailStrategy::GuardWithIf).reorder(ni, mi, no, mo, h, b);
    out.fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(ni, lanes, TailStrategy::PredicateStores);
    lanes_are_columns(s.start.compute_at(out, task)).store_in(MemoryType::Stack);

    // All rows take some chunks before the next, so that their weights stay in L2.
    Stage product = s.product.update();
    LoopLevel of_tile(s.product, mo), of_chunks(s.product, s.product_chunk), of_panel = of_chunks;
    if (tuning.tile_chunks == 0) {
        lanes_are_columns(s.product.compute_at(out, tile)).bound_extent(m, tuning.tile_rows).store_in(MemoryType::Stack);
        s.product.unroll(n).unroll(m);
        product.reorder(n, m, s.product_chunk, h, b).vectorize(n, lanes).unroll(n).unroll(m);
        of_tile = of_chunks, of_panel = LoopLevel(out, task);
    } else {
        lanes_are_columns(s.product.compute_at(out, task)).unroll(n);
        product.split(m, mo, mi, tuning.tile_rows, TailStrategy::RoundUp).reorder(n, mi, mo, s.product_chunk, h, b);
        if (tuning.tile_chunks > 1) {
            RVar turn("turn"), in_turn("in_turn");
            // Not in whole turns and a last one: of a depth of less than one, every block of weights would be cut short.
            product.split(s.product_chunk, turn, in_turn, tuning.tile_chunks)
                .reorder(n, mi, in_turn, mo, turn, h, b)
                .partition(turn, Partition::Never);
            of_tile = LoopLevel(s.product, in_turn), of_chunks = of_panel = LoopLevel(s.product, turn);
        }
        product.vectorize(n, lanes).unroll(n).unroll(mi);
    }

    if (s.in_pairs) s.product.update(1).reorder(n, m, s.odd).vectorize(n, lanes);

    // A register tile.
    lanes_are_columns(s.partial.compute_at(of_tile)).bound_extent(m, tuning.tile_rows).unroll(n).unroll(m);
    s.partial.store_in(MemoryType::Stack);
    if (block_by_block) {
        schedule_blocks_of_row(s, lanes);
    } else {
        Stage sums = s.partial.update();
        if (s.in_pairs)
            sums.reorder(s.pair, n, m, s.partial_k).atomic().vectorize(s.pair);
        else
            sums.reorder(n, m, s.partial_k);
        sums.vectorize(n, lanes).unroll(n).unroll(m);
    }
    if (s.x_rows.defined()) s.x_rows.compute_at(of_chunks).vectorize(k, lanes, TailStrategy::RoundUp);

    if (block_by_block || !s.panel.defined()) return;
    schedule_panel(s, of_panel, tuning.tile_columns, tuning.block, lanes);
}

}  // namespace attune
