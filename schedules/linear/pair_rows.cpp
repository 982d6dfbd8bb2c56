// SPDX-License-Identifier: MIT
// Few rows of bf16 pairs: lanes are the accumulators of some columns, whose neighbouring pairs are read as they lie.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// Vectors are the accumulators of so many columns, and so many vectors take turns, since a sum waits for the one before.
struct Vectors {
    int lanes, columns, turns;
    Vectors(const PanelTuning &tuning, int lanes) : lanes(lanes), columns(lanes / tuning.accumulators), turns(tuning.turns) {
        constexpr int columns_of_turns = 8;  // more addresses would not stay in registers
        if (turns == 0) turns = std::max(columns_of_turns / std::max(columns, 1), 1);
    }
    int columns_of_turns() const { return columns * turns; }
};

void require_pair_row_numbers(const PanelTuning &tuning, int lanes) {
    require_task(tuning, lanes);
    require_pairs(tuning);
    require_one_chunk(tuning);
    require_multiple("the vector width", lanes, "strands", tuning.accumulators);
    require_multiple("tile_columns", tuning.tile_columns, "the columns that take turns",
                     Vectors(tuning, lanes).columns_of_turns());
}

// What a round reads of so many columns.
Func in_registers(const LinearSums &s, Func pairs, const LoopLevel &at, const PanelTuning &tuning, int columns) {
    for (const Var &v : {s.t, s.h, s.b}) pairs.bound_extent(v, 1);
    return pairs.compute_at(at).store_in(MemoryType::Stack).bound(s.u, 0, tuning.accumulators).bound_extent(s.n, columns);
}

Stage in_lanes(const LinearSums &s, Stage sums, const Vectors &v) {
    return sums.split(s.n, no, ni, v.columns).split(no, no, turn, v.turns);
}

void start_sums(PairSums &s, const PanelTuning &tuning, const Vectors &v) {
    s.partial.bound(s.u, 0, tuning.accumulators);
    in_lanes(s, s.partial, v).reorder(s.u, ni, turn, no).vectorize(s.u).vectorize(ni).unroll(turn).unroll(no);
}

// The product of a task, chunk by chunk and in each accumulator by accumulator: in a loop, since of one expression LLVM would
// make a sum in another order.
void schedule_row_product(PairSums &s, Func out, const PanelTuning &tuning, int lanes) {
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    Stage product = s.product.update(0);
    split_in_tiles(s, product, tuning);
    vectorize_product(s, product, lanes);
    if (tuning.accumulators > 1) product.reorder(s.n, mi, s.product_accumulator, mo, s.product_chunk, s.h, s.b);
    schedule_odd(s, 1, lanes);
}

// The dot products of a group of pairs, one for each accumulator.
void schedule_dot_products(Bf16DotRowStages &s, Stage sums, const RVar &pair, PairGroup &group, const PanelTuning &tuning,
                           const Vectors &v) {
    in_registers(s, group.words, {s.partial, turn}, tuning, v.columns).vectorize(s.u).unroll(s.n);
    sums.atomic().vectorize(pair).vectorize(s.u).vectorize(ni).unroll(s.m);
    in_registers(s, group.panel, {s.partial, turn}, tuning, v.columns).bound(s.e, 0, 2).reorder(s.e, s.u, s.n);
    group.panel.unroll(s.e).vectorize(s.u).vectorize(s.n);
}

// The groups of a chunk, which partial has from this update on.
void schedule_groups(Bf16DotRowStages &s, int update, const PanelTuning &tuning, const Vectors &v) {
    Stage sums = in_lanes(s, s.partial.update(update), v).reorder(s.pair, s.u, ni, s.m, turn, s.partial_k, no).unroll(turn);
    schedule_dot_products(s, sums, s.pair, s.group, tuning, v);
    if (tuning.accumulators == 1) return;
    Stage rest = in_lanes(s, s.partial.update(update + 1), v).reorder(s.rest_pair, s.u, ni, s.m, turn, no);
    schedule_dot_products(s, rest, s.rest_pair, s.rest, tuning, v);
}

// The sums of whole lines, whose columns are split in turns of vectors; `round` is the loop that sums a line. What is read of a
// few rows of x stays in registers for the next turn; of more rows, whose turns are side by side, the weights.
void schedule_lines(const LinearSums &s, Bf16DotLineStages::Lines &lines, Func partial, Stage sums, const VarOrRVar &round,
                    const PanelTuning &tuning, const Vectors &v) {
    constexpr int rows_in_registers = 4;
    const bool turns_inside = tuning.tile_rows > rows_in_registers;
    const Var e = s.e, n = s.n, m = s.m, u = s.u, k = s.k, of_turn("of_turn");
    if (turns_inside)
        sums.reorder(lines.pair, u, ni, turn, m, lines.group, lines.line);
    else
        sums.reorder(lines.pair, u, ni, m, lines.group, turn, lines.line);
    sums.unroll(turn).unroll(lines.group).unroll(m).atomic().vectorize(lines.pair).vectorize(u).vectorize(ni);
    if (turns_inside)
        in_registers(s, lines.panel, {partial, round}, tuning, v.columns_of_turns());
    else
        in_registers(s, lines.panel, {partial, turn}, tuning, v.columns);
    lines.panel.bound(e, 0, 2).bound(k, 0, lines.transpose.vectors);
    lines.panel.split(n, of_turn, n, v.columns).reorder(e, u, n, k, of_turn);
    lines.panel.unroll(e).vectorize(u).vectorize(n).unroll(k).unroll(of_turn);
    schedule_transpose(lines.transpose, LoopLevel(lines.panel, of_turn));
}

void schedule_whole_chunks(Bf16DotLineStages &s, Bf16DotLineStages::WholeChunks &whole, Stage product,
                           const PanelTuning &tuning, const Vectors &v) {
    const Var n = s.n, m = s.m, u = s.u;
    product.reorder(n, m, whole.product_accumulator, whole.product_chunk, whole.product_group, s.h, s.b)
        .vectorize(n, v.columns_of_turns())
        .unroll(m);
    // From registers; of the columns of more than one vector LLVM would take an accumulator element by element.
    if (v.turns == 1) product.unroll(whole.product_accumulator).unroll(whole.product_chunk);
    in_register_tile(s, whole.partial, LoopLevel(s.product, whole.product_group), v.columns_of_turns(), tuning);
    whole.partial.bound(u, 0, tuning.accumulators).bound(s.a, 0, whole.chunks);
    whole.partial.split(n, turn, ni, v.columns).reorder(u, ni, turn, m, s.a).vectorize(u).vectorize(ni);
    whole.partial.unroll(turn).unroll(m).unroll(s.a);
    Stage sums = whole.partial.update().split(n, turn, ni, v.columns);
    schedule_lines(s, whole.lines, whole.partial, sums, s.a, tuning, v);
    sums.reorder(s.a, whole.lines.line).unroll(s.a);
}

// The columns that take turns go through the whole depth before the next: half as many lines on their way.
void schedule_tasks_by_turns(Bf16DotLineStages &s, Func out, const PanelTuning &tuning, const Vectors &v) {
    const int of_turns = v.columns_of_turns();
    out.split(s.n, no, ni, tuning.tile_columns, TailStrategy::GuardWithIf)
        .split(s.m, mo, mi, tuning.tiles_of_task() * tuning.tile_rows, TailStrategy::GuardWithIf)
        .reorder(ni, mi, no, mo, s.h, s.b)
        .split(ni, columns, ni, of_turns, TailStrategy::GuardWithIf)
        .reorder(ni, mi, columns)
        .unroll(mi)
        .partition(columns, Partition::Never);
    fuse_tasks(s, out);
    out.vectorize(ni, std::min(v.lanes, of_turns), TailStrategy::PredicateStores);
    schedule_start(s, out, tuning, v.lanes);

    in_register_tile(s, s.product, LoopLevel(out, columns), of_turns, tuning).vectorize(s.n, of_turns).unroll(s.m);
    const int chunks_that_are_left = int(s.whole_chunks.size());
    Stage product = s.product.update(chunks_that_are_left);
    split_in_tiles(s, product, tuning);
    product.unroll(mi);
    product.reorder(s.n, mi, s.product_accumulator, mo, s.product_chunk, s.h, s.b).vectorize(s.n, of_turns);
    schedule_odd(s, chunks_that_are_left + 1, std::min(v.lanes, of_turns));
}

}  // namespace

void schedule_form(WidenedRowStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_pair_row_numbers(tuning, lanes);
    const Vectors v(tuning, lanes);
    schedule_row_product(s, out, tuning, lanes);
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), tuning.tile_columns, tuning);
    start_sums(s, tuning, v);
    auto vectorize = [&](Stage sums, const RVar &pair, Func group) {
        in_registers(s, group, {s.partial, turn}, tuning, v.columns).vectorize(s.u).unroll(s.n);
        sums.unroll(pair).unroll(s.m).vectorize(s.u).vectorize(ni);
    };
    vectorize(in_lanes(s, s.partial.update(0), v).reorder(s.u, ni, s.m, s.pair, turn, s.partial_k, no).unroll(turn), s.pair,
              s.group);
    if (tuning.accumulators > 1)
        vectorize(in_lanes(s, s.partial.update(1), v).reorder(s.u, ni, s.m, s.rest_pair, turn, no), s.rest_pair, s.rest_group);
    s.x_rows.compute_at(s.product, s.product_chunk).vectorize(s.k, lanes, TailStrategy::RoundUp);
    s.x_rows.bound(s.e, 0, 2).bound_storage(s.k, tuning.chunk / 2).reorder(s.e, s.k).unroll(s.e);
}

void schedule_form(Bf16DotRowStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_pair_row_numbers(tuning, lanes);
    const Vectors v(tuning, lanes);
    schedule_row_product(s, out, tuning, lanes);
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), tuning.tile_columns, tuning);
    start_sums(s, tuning, v);
    schedule_groups(s, 0, tuning, v);
}

void schedule_form(Bf16DotLineStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_blocks(tuning, lanes);
    require(tuning.accumulators > 1, "blocks of pairs for few rows are for several strands, strands is 1");
    require(tuning.task_rows == tuning.tile_rows,
            "task_rows is " + std::to_string(tuning.task_rows) + ", must be tile_rows where pairs are read by lines");
    require_pair_row_numbers(tuning, lanes);
    const Vectors v(tuning, lanes);
    schedule_tasks_by_turns(s, out, tuning, v);
    int update = 0;
    for (auto &whole : s.whole_chunks) schedule_whole_chunks(s, whole, s.product.update(update++), tuning, v);
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), v.columns_of_turns(), tuning);
    start_sums(s, tuning, v);
    schedule_lines(s, s.lines, s.partial, in_lanes(s, s.partial.update(0), v), s.lines.line, tuning, v);
    schedule_groups(s, 1, tuning, v);
}

}  // namespace attune
