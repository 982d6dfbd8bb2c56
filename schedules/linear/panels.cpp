// Weights in panels: packed for a task, read by register tiles of rows by columns.
#include "schedules/linear/linear_schedules.h"
#include "lowering/require.h"
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;

void require_block(int block, int lanes) {
    require(block == lanes, "block is " + std::to_string(block) + ", must be the vector width, " + std::to_string(lanes));
}

void require_tile(const PanelTuning &tuning, int lanes) {
    require(tuning.tile_columns > 0, "tile_columns must be given");
    require(tuning.tile_rows > 0, "tile_rows must be given");
    require_multiple("tile_columns", tuning.tile_columns, "the vector width", lanes);
}

void schedule_panel(LinearStages &s, const LoopLevel &at, int columns, int block, int lanes, int strands) {
    const Var e = s.e, n = s.n, k = s.k, u = s.u;
    Var no("no"), ni("ni"), ko("ko"), ki("ki");
    s.panel.compute_at(at).bound_extent(n, columns);
    const bool in_pairs = s.panel.args().front().same_as(e);
    const bool by_strands = s.in_pairs && !s.widened;
    if (in_pairs) s.panel.bound(e, 0, 2);
    if (by_strands) s.panel.bound(u, 0, strands);
    const int groups_of_block = by_strands ? block / strands : block;
    if (s.transpose) {
        if (by_strands) require_multiple("block", block, "strands", strands);
        // A block begins where its table does, also in a chunk that begins behind the last whole group of strands.
        if (s.widened) s.panel.align_bounds(k, block);
        // Along k within a tile of columns: the addresses of its rows in memory are found once.
        s.panel.split(k, ko, ki, groups_of_block, TailStrategy::RoundUp).split(n, no, ni, block);
        if (by_strands)
            s.panel.reorder(ni, u, ki, ko, no, s.h, s.b).unroll(u);
        else
            s.panel.reorder(ni, ki, ko, no, s.h, s.b);
        s.panel.vectorize(ni).unroll(ki);
        if (in_pairs) s.panel.reorder(e, ni).unroll(e);
        schedule_transpose(*s.transpose, LoopLevel(s.panel, ko));
    } else {
        // Whole rows as they lie. Not unrolled: only the last vector of a loop has to look where the columns end.
        s.panel.split(n, no, ni, lanes).vectorize(ni);
        if (in_pairs) s.panel.vectorize(e);
    }
}

// Of few rows. Whole blocks go through registers alone; one of which the chunk has a part is summed from where it was transposed.
// Blocks of neighbouring columns take turns: the sums of one wait for each other while the next is transposed.
static void schedule_blocks_of_few_rows(LinearStages &s, int lanes) {
    constexpr int block_in_order = 8;
    require(lanes >= block_in_order, "the vector width is " + std::to_string(lanes) + ", must be at least " +
                                         std::to_string(block_in_order) + ": LLVM 21 sums smaller blocks in another order");
    const Var n = s.n, m = s.m;
    Var no("no"), ni("ni");
    auto schedule = [&](Func partial, const std::vector<LinearStages::BlockSum> &block_sums, BlockTranspose transpose,
                        int columns) {
        for (int update = 0; update < int(block_sums.size()); update++) {
            const auto &[term, block] = block_sums[update];
            Stage sums = partial.update(update);
            sums.split(n, no, ni, columns).reorder(ni, m, term, no, block).vectorize(ni).unroll(m).unroll(no);
            if (columns < lanes) sums.reorder(s.u, ni).vectorize(s.u);
            if (update == s.whole_blocks) sums.unroll(term);
        }
        schedule_transpose(transpose, LoopLevel(partial, no));
    };
    schedule(s.partial, s.block_sums, *s.transpose, lanes);
    if (s.abreast) schedule(s.abreast->partial, s.abreast->block_sums, s.abreast->transpose, lanes / s.abreast->chunks);
}

// The columns of some vectors of sums take a group of chunks before the next ones do: rows of weights that lie apart by no more lines
// than a first cache has room for.
static void schedule_chunks_abreast(LinearStages &s, const PanelTuning &tuning, int lanes) {
    LinearStages::Abreast &a = *s.abreast;
    const Var n = s.n, m = s.m, u = s.u;
    Var group_mo("group_mo"), mi("mi"), pass("pass"), ni("ni"), no("no");
    require_multiple("the vector width", lanes, "abreast", a.chunks);
    const int columns = lanes / a.chunks, columns_of_pass = columns * std::max(tuning.turns, 1);
    require_multiple("tile_columns", tuning.tile_columns, "the columns that take turns", columns_of_pass);
    s.product.update(0)
        .split(m, group_mo, mi, tuning.tile_rows, TailStrategy::RoundUp)
        .split(n, pass, n, columns_of_pass)
        .reorder(n, mi, a.product_chunk, pass, group_mo, a.product_group, s.h, s.b)
        .vectorize(n, columns_of_pass)
        .unroll(mi);
    a.x.compute_at(s.product, group_mo).store_in(MemoryType::Stack);
    a.x.bound(u, 0, a.chunks)
        .bound_extent(s.k, tuning.chunk)
        .bound_extent(m, tuning.tile_rows)
        .reorder(u, s.k)
        .vectorize(s.k, a.chunks)
        .unroll(u);
    a.partial.compute_at(s.product, pass).store_in(MemoryType::Stack);
    a.partial.bound(u, 0, a.chunks).bound_extent(n, columns_of_pass).bound_extent(m, tuning.tile_rows);
    a.partial.split(n, no, ni, columns).reorder(u, ni, no).vectorize(u).vectorize(ni).unroll(no).unroll(m);
}

// Of few rows in pairs, whose lanes are the strands of some columns: how many such vectors take turns, since a sum waits for the one
// before.
static int turns_of_few_rows(const PanelTuning &tuning, int lanes) {
    constexpr int columns_of_turns = 8;  // more addresses would not stay in registers
    return tuning.turns ? tuning.turns : std::max(columns_of_turns / std::max(lanes / tuning.strands, 1), 1);
}

// What a round reads of so many columns.
static Func in_registers(const LinearStages &s, Func pairs, const LoopLevel &at, int strands, int columns) {
    for (const Var &v : {s.t, s.h, s.b}) pairs.bound_extent(v, 1);
    return pairs.compute_at(at).store_in(MemoryType::Stack).bound(s.u, 0, strands).bound_extent(s.n, columns);
}

// The sums of whole lines, whose columns are split in turns of vectors; `round` is the loop that sums a line. What is read of a few rows
// of x stays in registers for the next turn; of more rows, whose turns are side by side, the weights.
static void schedule_lines(LinearStages &s, LinearStages::Lines &lines, Func partial, Stage sums, const VarOrRVar &round,
                           const Var &ni, const Var &turn, const PanelTuning &tuning, int lanes) {
    constexpr int rows_in_registers = 4;
    const bool turns_inside = tuning.tile_rows > rows_in_registers;
    const int columns = lanes / tuning.strands;
    const Var e = s.e, n = s.n, m = s.m, u = s.u, k = s.k;
    Var of_turn("of_turn");
    if (turns_inside)
        sums.reorder(lines.pair, u, ni, turn, m, lines.group, lines.line);
    else
        sums.reorder(lines.pair, u, ni, m, lines.group, turn, lines.line);
    sums.unroll(turn).unroll(lines.group).unroll(m).atomic().vectorize(lines.pair).vectorize(u).vectorize(ni);
    if (turns_inside)
        in_registers(s, lines.panel, {partial, round}, tuning.strands, columns * turns_of_few_rows(tuning, lanes));
    else
        in_registers(s, lines.panel, {partial, turn}, tuning.strands, columns);
    lines.panel.bound(e, 0, 2).bound(k, 0, lines.transpose.vectors);
    lines.panel.split(n, of_turn, n, columns).reorder(e, u, n, k, of_turn);
    lines.panel.unroll(e).vectorize(u).vectorize(n).unroll(k).unroll(of_turn);
    schedule_transpose(lines.transpose, LoopLevel(lines.panel, of_turn));
}

static void schedule_whole_chunks(LinearStages &s, LinearStages::WholeChunks &whole, Stage product, const PanelTuning &tuning,
                                  int lanes) {
    const int columns = lanes / tuning.strands, columns_of_turns = columns * turns_of_few_rows(tuning, lanes);
    const Var n = s.n, m = s.m, u = s.u;
    Var turn("turn"), ni("ni");
    product.reorder(n, m, whole.product_strand, whole.product_chunk, whole.product_group, s.h, s.b)
        .vectorize(n, columns_of_turns)
        .unroll(m);
    // From registers; of the columns of more than one vector LLVM would take a strand element by element.
    if (columns == columns_of_turns) product.unroll(whole.product_strand).unroll(whole.product_chunk);
    whole.partial.compute_at(s.product, whole.product_group).store_in(MemoryType::Stack);
    whole.partial.bound(u, 0, tuning.strands).bound(s.a, 0, whole.chunks);
    whole.partial.bound_extent(n, columns_of_turns).bound_extent(m, tuning.tile_rows);
    whole.partial.split(n, turn, ni, columns).reorder(u, ni, turn, m, s.a).vectorize(u).vectorize(ni);
    whole.partial.unroll(turn).unroll(m).unroll(s.a);
    Stage sums = whole.partial.update().split(n, turn, ni, columns);
    schedule_lines(s, whole.lines, whole.partial, sums, s.a, ni, turn, tuning, lanes);
    sums.reorder(s.a, whole.lines.line).unroll(s.a);
}

static void schedule_pairs_of_few_rows(LinearStages &s, const PanelTuning &tuning, int lanes) {
    const int strands = tuning.strands, columns = lanes / strands, turns = turns_of_few_rows(tuning, lanes);
    const Var e = s.e, n = s.n, m = s.m, u = s.u;
    Var no("no"), turn("turn"), ni("ni");
    require_multiple("the vector width", lanes, "strands", strands);
    require_multiple("tile_columns", tuning.tile_columns, "the columns that take turns", turns * columns);
    auto in_lanes = [&](Stage sums) { return sums.split(n, no, ni, columns).split(no, no, turn, turns); };
    auto of_turn = [&](Func pairs) { return in_registers(s, pairs, {s.partial, turn}, strands, columns); };
    auto vectorize = [&](Stage sums, const RVar &pair, Func group, Func panel) {
        of_turn(group).vectorize(u).unroll(n);
        if (s.widened) {
            sums.reorder(u, ni, m, pair, turn).unroll(pair).unroll(m).vectorize(u).vectorize(ni);
            return;
        }
        sums.atomic().vectorize(pair).vectorize(u).vectorize(ni).unroll(m);
        of_turn(panel).bound(e, 0, 2).reorder(e, u, n).unroll(e).vectorize(u).vectorize(n);
    };
    s.partial.bound(u, 0, strands);
    in_lanes(s.partial).reorder(u, ni, turn, no).vectorize(u).vectorize(ni).unroll(turn).unroll(no);
    int update = 0;
    if (s.lines)
        schedule_lines(s, *s.lines, s.partial, in_lanes(s.partial.update(update++)), s.lines->line, ni, turn, tuning, lanes);
    Stage sums = in_lanes(s.partial.update(update++)).reorder(s.pair, u, ni, m, turn, s.partial_k, no).unroll(turn);
    vectorize(sums, s.pair, s.group, s.panel);
    if (!s.in_strands) return;
    Stage rest = in_lanes(s.partial.update(update)).reorder(s.rest_pair, u, ni, m, turn, no);
    vectorize(rest, s.rest_pair, s.rest_group, s.rest_panel);
}

// A register tile. One row takes all strands at a time, since neighbouring weights belong to different ones.
static void schedule_register_tile(LinearStages &s, Func partial, bool one_row, int strands, int lanes) {
    const Var n = s.n, m = s.m, u = s.u;
    partial.vectorize(n, lanes).unroll(n).unroll(m);
    if (!s.in_pairs) {
        partial.update().reorder(n, m, s.partial_k).vectorize(n, lanes).unroll(n).unroll(m);
        return;
    }
    if (one_row) partial.bound(u, 0, strands).unroll(u);
    auto in_lanes_of_columns = [&](Stage sums, const RVar &pair) {
        if (s.widened)
            sums.reorder(n, m, pair);
        else
            sums.atomic().vectorize(pair);
        sums.vectorize(n, lanes).unroll(n).unroll(m);
        if (one_row) sums.unroll(u);
    };
    in_lanes_of_columns(partial.update().reorder(s.pair, n, m, u, s.partial_k), s.pair);
    if (s.in_strands) in_lanes_of_columns(partial.update(1).reorder(s.rest_pair, n, m, u), s.rest_pair);
}

void schedule_panels(LinearStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_tile(tuning, lanes);
    require(tuning.task_rows > 0, "task_rows must be given");
    require_multiple("task_rows", tuning.task_rows, "tile_rows", tuning.tile_rows);
    if (s.transpose || s.lines) {
        require_block(tuning.block, lanes);
        require_multiple("chunk", tuning.chunk, "block", tuning.block);
    }
    if (s.in_pairs) require_multiple("chunk", tuning.chunk, "the elements of a pair for each strand", 2 * tuning.strands);
    require(!s.lines || s.in_strands, "blocks of pairs for few rows are for several strands, strands is 1");
    const bool one_row = tuning.tile_rows == 1, as_it_lies = !s.block_sums.empty() || s.group.defined();
    require(!s.lines || tuning.task_rows == tuning.tile_rows,
            "task_rows is " + std::to_string(tuning.task_rows) + ", must be tile_rows where pairs are read by lines");
    require(tuning.turns == 0 || s.abreast || s.group.defined(), "turns is for chunks abreast, and for pairs of few rows");
    require(tuning.tile_chunks == 1 || !(s.in_pairs || as_it_lies) || (s.last_apart && !one_row),
            "tile_chunks is " + std::to_string(tuning.tile_chunks) + ", must be 1 here");
    const bool tile_in_registers = tuning.tile_chunks == 0 && !s.last_apart;
    const Var n = s.n, m = s.m, k = s.k, h = s.h, b = s.b;
    Var task("task"), tile("tile"), columns("columns"), no("no"), ni("ni"), mo("mo"), mi("mi");
    // Constant extents, or stages would get strides known at run time only; lanes are columns.
    auto lanes_are_columns = [&](Func f) -> Func { return f.bound_extent(n, tuning.tile_columns).vectorize(n, lanes); };

    // The columns that take turns go through the whole depth before the next: half as many lines on their way.
    int columns_of_partial = tuning.tile_columns;
    if (s.lines)
        columns_of_partial = turns_of_few_rows(tuning, lanes) * lanes / tuning.strands;
    else if (s.abreast)
        columns_of_partial = lanes;

    // Tasks, columns first: neighbours share their rows of x.
    out.split(n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf);
    if (tuning.tile_chunks == 0)
        out.split(m, tile, mi, tuning.tile_rows, TailStrategy::GuardWithIf)
            .split(tile, mo, tile, tuning.tiles_of_task(), TailStrategy::GuardWithIf)
            .reorder(ni, mi, tile, no, mo, h, b);
    else
        out.split(m, mo, mi, tuning.tiles_of_task() * tuning.tile_rows, TailStrategy::GuardWithIf)
            .reorder(ni, mi, no, mo, h, b);
    if (s.lines)
        out.split(ni, columns, ni, columns_of_partial, TailStrategy::GuardWithIf)
            .reorder(ni, mi, columns)
            .unroll(mi)
            .partition(columns, Partition::Never);
    out.fuse(no, mo, task)
        .fuse(task, h, task)
        .fuse(task, b, task)
        .parallel(task)
        .vectorize(ni, std::min(lanes, columns_of_partial), TailStrategy::PredicateStores);
    if (tuning.tile_chunks == 0) out.unroll(ni).unroll(mi);  // straight from registers
    lanes_are_columns(s.start.compute_at(out, task)).store_in(MemoryType::Stack);

    // All rows take some chunks before the next, so that their weights stay in L2.
    Stage product = s.product.update(s.abreast ? 1 : int(s.whole_chunks.size()));
    LoopLevel of_tile(s.product, mo), of_chunks(s.product, s.product_chunk), of_panel = of_chunks;
    if (tile_in_registers) {
        lanes_are_columns(s.product.compute_at(out, tile)).bound_extent(m, tuning.tile_rows).store_in(MemoryType::Stack);
        s.product.unroll(n).unroll(m);
        product.reorder(n, m, s.product_chunk, h, b).vectorize(n, lanes).unroll(n).unroll(m);
        if (tuning.one_chunk.defined()) product.specialize(tuning.one_chunk);
        of_tile = of_chunks, of_panel = LoopLevel(out, task);
    } else {
        if (s.lines)
            s.product.compute_at(out, columns)
                .store_in(MemoryType::Stack)
                .bound_extent(n, columns_of_partial)
                .bound_extent(m, tuning.tile_rows)
                .vectorize(n, columns_of_partial)
                .unroll(m);
        else
            lanes_are_columns(s.product.compute_at(out, task)).unroll(n);
        product.split(m, mo, mi, tuning.tile_rows, TailStrategy::RoundUp).reorder(n, mi, mo, s.product_chunk, h, b);
        if (s.last_apart) of_panel = LoopLevel(out, task);
        if (tuning.tile_chunks > 1) {
            RVar turn("turn"), in_turn("in_turn");
            // Not in whole turns and a last one: of a depth of less than one, every block of weights would be cut short.
            product.split(s.product_chunk, turn, in_turn, tuning.tile_chunks)
                .reorder(n, mi, in_turn, mo, turn, h, b)
                .partition(turn, Partition::Never);
            of_tile = LoopLevel(s.product, in_turn), of_chunks = of_panel = LoopLevel(s.product, turn);
        }
        if (!s.lines && !s.abreast) product.vectorize(n, lanes).unroll(n);
        product.unroll(mi);
    }
    // Tiles of dot products take a strand of a chunk before the next, so that its weights stay in L1; others all strands, one row
    // too. In a loop: of one expression LLVM would make a sum in another order.
    if (s.lines) {
        product.reorder(n, mi, s.product_strand, mo, s.product_chunk, h, b).vectorize(n, columns_of_partial);
    } else if (s.abreast) {
        product.split(n, no, n, lanes).reorder(n, mi, mo, s.product_chunk, no, h, b).vectorize(n, lanes);
    } else if (s.in_strands) {
        const bool tiles = !one_row && !s.group.defined();
        if (tiles && !s.widened) {
            product.reorder(n, mi, mo, s.product_strand, s.product_chunk, h, b);
        } else {
            product.reorder(n, mi, s.product_strand, mo, s.product_chunk, h, b);
            if (tiles) of_tile = LoopLevel(s.product, s.product_strand);
        }
    }

    int update = 0;
    for (LinearStages::WholeChunks &whole : s.whole_chunks)
        schedule_whole_chunks(s, whole, s.product.update(update++), tuning, lanes);
    if (s.in_pairs && !s.last_apart)
        s.product.update(int(s.whole_chunks.size()) + 1).reorder(n, m, s.odd).vectorize(n, std::min(lanes, columns_of_partial));

    auto of_one_tile = [&](Func partial, const LoopLevel &at) -> Func {
        return partial.compute_at(at)
            .store_in(MemoryType::Stack)
            .bound_extent(n, columns_of_partial)
            .bound_extent(m, tuning.tile_rows);
    };
    if (s.last_apart)
        schedule_register_tile(s, of_one_tile(s.partial.clone_in(out), LoopLevel(out, tile)), one_row, tuning.strands, lanes);
    of_one_tile(s.partial, of_tile);
    if (s.group.defined()) {
        schedule_pairs_of_few_rows(s, tuning, lanes);
    } else if (!s.block_sums.empty()) {
        s.partial.vectorize(n, lanes).unroll(n).unroll(m);
        schedule_blocks_of_few_rows(s, lanes);
        if (s.abreast) schedule_chunks_abreast(s, tuning, lanes);
    } else {
        schedule_register_tile(s, s.partial, one_row, tuning.strands, lanes);
    }
    if (s.x_rows.defined())
        s.x_rows.compute_at(tile_in_registers ? LoopLevel(out, task) : of_chunks).vectorize(k, lanes, TailStrategy::RoundUp);
    if (s.group.defined() && s.widened)
        s.x_rows.bound(s.e, 0, 2).bound_storage(k, tuning.chunk / 2).reorder(s.e, k).unroll(s.e);

    if (as_it_lies || !s.panel.defined()) return;
    schedule_panel(s, of_panel, tuning.tile_columns, tuning.block, lanes, tuning.strands);
}

}  // namespace attune
