// SPDX-License-Identifier: MIT
// Few rows of bf16 pairs: lanes are the accumulators of some columns, whose neighbouring pairs are read in place.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

// Vectors of the accumulators of `columns` columns, `interleaved_vectors` of them interleaved to hide the latency of a sum.
struct Vectors {
    int lanes, columns, interleaved_vectors;
    Vectors(const PanelParameters &parameters, int lanes)
        : lanes(lanes), columns(lanes / parameters.accumulators), interleaved_vectors(parameters.interleaved_vectors) {
        constexpr int columns_at_most = 8;  // addresses of more columns would not stay in registers
        if (interleaved_vectors == 0) interleaved_vectors = std::max(columns_at_most / std::max(columns, 1), 1);
    }
    int interleaved_columns() const { return columns * interleaved_vectors; }
};

void require_pair_row_parameters(const PanelParameters &parameters, int lanes) {
    require_task(parameters, lanes);
    require_pairs(parameters);
    require_one_depth_block(parameters);
    require_multiple("the vector width", lanes, "accumulators", parameters.accumulators);
    require_multiple("tile_columns", parameters.tile_columns, "the columns of interleaved vectors",
                     Vectors(parameters, lanes).interleaved_columns());
}

// Reads of a round, of `columns` columns.
Func in_registers(const LinearSums &s, Func pairs, const LoopLevel &at, const PanelParameters &parameters, int columns) {
    for (const Var &v : {s.t, s.h, s.b}) pairs.bound_extent(v, 1);
    return pairs.compute_at(at).store_in(MemoryType::Stack).bound(s.u, 0, parameters.accumulators).bound_extent(s.n, columns);
}

Stage in_lanes(const LinearSums &s, Stage sums, const Vectors &v) {
    return sums.split(s.n, no, ni, v.columns).split(no, no, interleaved_vector, v.interleaved_vectors);
}

void start_sums(PairSums &s, const PanelParameters &parameters, const Vectors &v) {
    s.partial.bound(s.u, 0, parameters.accumulators);
    in_lanes(s, s.partial, v)
        .reorder(s.u, ni, interleaved_vector, no)
        .vectorize(s.u)
        .vectorize(ni)
        .unroll(interleaved_vector)
        .unroll(no);
}

// The product of a task, depth block by depth block and within each accumulator by accumulator: in a loop, because LLVM would
// reorder sums in one expression.
void schedule_row_product(PairSums &s, Func out, const PanelParameters &parameters, int lanes) {
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    Stage product = s.product.update(0);
    split_in_tiles(s, product, parameters);
    vectorize_product(s, product, lanes);
    if (parameters.accumulators > 1) product.reorder(s.n, mi, s.product_accumulator, mo, s.product_depth_block, s.h, s.b);
    schedule_odd(s, 1, lanes);
}

// The product and the partial sums of a task, which begin at 0; returns the layout of their vectors.
Vectors schedule_row_sums(PairSums &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_pair_row_parameters(parameters, lanes);
    const Vectors v(parameters, lanes);
    schedule_row_product(s, out, parameters, lanes);
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), parameters.tile_columns, parameters);
    start_sums(s, parameters, v);
    return v;
}

// The dot products of a group of pairs, one for each accumulator.
void schedule_dot_products(Bf16DotRowStages &s, Stage sums, const RVar &pair, PairGroup &group,
                           const PanelParameters &parameters, const Vectors &v) {
    in_registers(s, group.words, {s.partial, interleaved_vector}, parameters, v.columns).vectorize(s.u).unroll(s.n);
    sums.atomic().vectorize(pair).vectorize(s.u).vectorize(ni).unroll(s.m);
    in_registers(s, group.panel, {s.partial, interleaved_vector}, parameters, v.columns)
        .bound(s.e, 0, 2)
        .reorder(s.e, s.u, s.n);
    group.panel.unroll(s.e).vectorize(s.u).vectorize(s.n);
}

// The groups of a depth block, in the updates of partial from `update` on.
void schedule_groups(Bf16DotRowStages &s, int update, const PanelParameters &parameters, const Vectors &v) {
    Stage sums = in_lanes(s, s.partial.update(update), v)
                     .reorder(s.pair, s.u, ni, s.m, interleaved_vector, s.partial_k, no)
                     .unroll(interleaved_vector);
    schedule_dot_products(s, sums, s.pair, s.group, parameters, v);
    if (parameters.accumulators == 1) return;
    Stage rest = in_lanes(s, s.partial.update(update + 1), v).reorder(s.rest_pair, s.u, ni, s.m, interleaved_vector, no);
    schedule_dot_products(s, rest, s.rest_pair, s.rest, parameters, v);
}

// The sums of whole lines, whose columns are split in interleaved vectors; `round` is the loop that sums a line. For a few
// rows, x stays in registers for the next vector; for more rows, whose vectors are side by side, the weights do.
void schedule_lines(const LinearSums &s, Bf16DotLineStages::Lines &lines, Func partial, Stage sums, const VarOrRVar &round,
                    const PanelParameters &parameters, const Vectors &v) {
    constexpr int rows_in_registers = 4;
    const bool vectors_inside = parameters.tile_rows > rows_in_registers;
    const Var e = s.e, n = s.n, m = s.m, u = s.u, k = s.k, panel_vector("panel_vector");
    if (vectors_inside)
        sums.reorder(lines.pair, u, ni, interleaved_vector, m, lines.group, lines.line);
    else
        sums.reorder(lines.pair, u, ni, m, lines.group, interleaved_vector, lines.line);
    sums.unroll(interleaved_vector).unroll(lines.group).unroll(m).atomic().vectorize(lines.pair).vectorize(u).vectorize(ni);
    if (vectors_inside)
        in_registers(s, lines.panel, {partial, round}, parameters, v.interleaved_columns());
    else
        in_registers(s, lines.panel, {partial, interleaved_vector}, parameters, v.columns);
    lines.panel.bound(e, 0, 2).bound(k, 0, lines.transpose.vectors);
    lines.panel.split(n, panel_vector, n, v.columns).reorder(e, u, n, k, panel_vector);
    lines.panel.unroll(e).vectorize(u).vectorize(n).unroll(k).unroll(panel_vector);
    schedule_transpose(lines.transpose, LoopLevel(lines.panel, panel_vector));
}

void schedule_whole_depth_blocks(Bf16DotLineStages &s, Bf16DotLineStages::WholeDepthBlocks &whole, Stage product,
                                 const PanelParameters &parameters, const Vectors &v) {
    const Var n = s.n, m = s.m, u = s.u;
    product.reorder(n, m, whole.product_accumulator, whole.product_depth_block, whole.product_group, s.h, s.b)
        .vectorize(n, v.interleaved_columns())
        .unroll(m);
    // From registers; with several vectors LLVM would extract an accumulator element by element.
    if (v.interleaved_vectors == 1) product.unroll(whole.product_accumulator).unroll(whole.product_depth_block);
    in_register_tile(s, whole.partial, LoopLevel(s.product, whole.product_group), v.interleaved_columns(), parameters);
    whole.partial.bound(u, 0, parameters.accumulators).bound(s.a, 0, whole.depth_blocks);
    whole.partial.split(n, interleaved_vector, ni, v.columns)
        .reorder(u, ni, interleaved_vector, m, s.a)
        .vectorize(u)
        .vectorize(ni);
    whole.partial.unroll(interleaved_vector).unroll(m).unroll(s.a);
    Stage sums = whole.partial.update().split(n, interleaved_vector, ni, v.columns);
    schedule_lines(s, whole.lines, whole.partial, sums, s.a, parameters, v);
    sums.reorder(s.a, whole.lines.line).unroll(s.a);
}

// The columns of interleaved vectors take the whole depth before the next ones: half as many lines are in flight.
void schedule_tasks_by_interleaved_columns(Bf16DotLineStages &s, Func out, const PanelParameters &parameters,
                                           const Vectors &v) {
    const int interleaved_columns = v.interleaved_columns();
    out.split(s.n, no, ni, parameters.tile_columns, TailStrategy::GuardWithIf)
        .split(s.m, mo, mi, parameters.tiles_of_task() * parameters.tile_rows, TailStrategy::GuardWithIf)
        .reorder(ni, mi, no, mo, s.h, s.b)
        .split(ni, columns, ni, interleaved_columns, TailStrategy::GuardWithIf)
        .reorder(ni, mi, columns)
        .unroll(mi)
        .partition(columns, Partition::Never);
    fuse_tasks(s, out);
    out.vectorize(ni, std::min(v.lanes, interleaved_columns), TailStrategy::PredicateStores);
    schedule_start(s, out, parameters, v.lanes);

    in_register_tile(s, s.product, LoopLevel(out, columns), interleaved_columns, parameters)
        .vectorize(s.n, interleaved_columns)
        .unroll(s.m);
    const int depth_blocks_that_are_left = int(s.whole_depth_blocks.size());
    Stage product = s.product.update(depth_blocks_that_are_left);
    split_in_tiles(s, product, parameters);
    product.unroll(mi);
    product.reorder(s.n, mi, s.product_accumulator, mo, s.product_depth_block, s.h, s.b).vectorize(s.n, interleaved_columns);
    schedule_odd(s, depth_blocks_that_are_left + 1, std::min(v.lanes, interleaved_columns));
}

}  // namespace

void schedule_form(WidenedRowStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const Vectors v = schedule_row_sums(s, out, parameters, target);
    auto vectorize = [&](Stage sums, const RVar &pair, Func group) {
        in_registers(s, group, {s.partial, interleaved_vector}, parameters, v.columns).vectorize(s.u).unroll(s.n);
        sums.unroll(pair).unroll(s.m).vectorize(s.u).vectorize(ni);
    };
    vectorize(in_lanes(s, s.partial.update(0), v)
                  .reorder(s.u, ni, s.m, s.pair, interleaved_vector, s.partial_k, no)
                  .unroll(interleaved_vector),
              s.pair, s.group);
    if (parameters.accumulators > 1)
        vectorize(in_lanes(s, s.partial.update(1), v).reorder(s.u, ni, s.m, s.rest_pair, interleaved_vector, no), s.rest_pair,
                  s.rest_group);
    schedule_widened_rows(s, s.x_rows, LoopLevel(s.product, s.product_depth_block), parameters, v.lanes);
    s.x_rows.bound(s.e, 0, 2).bound_storage(s.k, parameters.depth_block / 2).reorder(s.e, s.k).unroll(s.e);
}

void schedule_form(Bf16DotRowStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const Vectors v = schedule_row_sums(s, out, parameters, target);
    schedule_groups(s, 0, parameters, v);
}

void schedule_form(Bf16DotLineStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_blocks(parameters, lanes);
    require(parameters.accumulators > 1, "blocks of pairs for few rows are for several accumulators, accumulators is 1");
    require(parameters.task_rows == parameters.tile_rows,
            "task_rows is " + std::to_string(parameters.task_rows) + ", must be tile_rows where pairs are read by lines");
    require_pair_row_parameters(parameters, lanes);
    const Vectors v(parameters, lanes);
    schedule_tasks_by_interleaved_columns(s, out, parameters, v);
    int update = 0;
    for (auto &whole : s.whole_depth_blocks) schedule_whole_depth_blocks(s, whole, s.product.update(update++), parameters, v);
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), v.interleaved_columns(), parameters);
    start_sums(s, parameters, v);
    schedule_lines(s, s.lines, s.partial, in_lanes(s, s.partial.update(0), v), s.lines.line, parameters, v);
    schedule_groups(s, 1, parameters, v);
}

}  // namespace attune
