// SPDX-License-Identifier: MIT
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;

void schedule_transpose(BlockTranspose transpose, const LoopLevel &block) {
    const int side = transpose.side, vectors = transpose.vectors;
    auto one_block = [&](Func f) -> Func {
        for (const Var &v : f.args()) {
            const bool inside = v.same_as(transpose.column) || v.same_as(transpose.vector) || v.same_as(transpose.place);
            const bool bit =
                std::any_of(transpose.bits.begin(), transpose.bits.end(), [&](const Var &b) { return b.same_as(v); });
            if (bit) f.bound(v, 0, 2).vectorize(v);
            if (!inside && !bit) f.bound_extent(v, 1);
        }
        return f.compute_at(block).store_in(MemoryType::Stack);
    };
    Func rows = one_block(transpose.rows).bound_extent(transpose.column, side).bound_extent(transpose.vector, vectors);
    if (transpose.read_together < side)
        rows.vectorize(transpose.column, transpose.read_together).unroll(transpose.column);
    else
        rows.vectorize(transpose.column);
    rows.unroll(transpose.vector);
    for (Func pass : transpose.passes) one_block(pass).bound(transpose.vector, 0, vectors).unroll(transpose.vector);
    one_block(transpose.block).bound(transpose.place, 0, side * vectors);
    Stage last = transpose.block.update();
    // Each place is written once.
    last.allow_race_conditions();
    const int bits = int(transpose.bits.size());
    for (int bit = 0; bit < bits; bit++) last.vectorize(transpose.block_bits[bit]);
    last.unroll(transpose.block_bits[bits]);
}

void schedule_blocks(Stage consumer, Func of, VarOrRVar row, VarOrRVar column, VarOrRVar column_block,
                     const std::vector<BlockTranspose> &tables) {
    // Named after the block, which distinguishes the stages of a Func: Halide finds the place of a table by name.
    Var row_block(column_block.name() + "_row_block"), in_row("in_row");
    consumer.split(row, row_block, in_row, tables[0].side)
        .reorder({in_row, column, column_block, row_block})
        .vectorize(in_row)
        .unroll(column);
    for (const BlockTranspose &table : tables) schedule_transpose(table, LoopLevel(of, column_block));
}

}  // namespace attune
