#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void schedule_transpose(BlockTranspose transpose, const LoopLevel &block) {
    const int side = transpose.side;
    Var outer("outer"), inner("inner");
    auto one_block = [&](Func f) -> Func {
        for (const Var &v : f.args())
            if (!v.same_as(f.args()[0]) && !v.same_as(f.args()[1])) f.bound_extent(v, 1);
        return f.compute_at(block).store_in(MemoryType::Stack);
    };
    one_block(transpose.rows)
        .bound_extent(transpose.column, side)
        .bound_extent(transpose.row, side)
        .vectorize(transpose.column)
        .unroll(transpose.row);
    for (Func pass : transpose.passes)
        one_block(pass)
            .bound_extent(transpose.half, 2)
            .bound_extent(transpose.at, side * side / 2)
            .split(transpose.at, outer, inner, side)
            .reorder(transpose.half, inner, outer)
            .vectorize(inner)
            .unroll(transpose.half)
            .unroll(outer);
}

void schedule_blocks(Stage consumer, Func of, VarOrRVar row, VarOrRVar column, VarOrRVar column_block,
                     const std::vector<BlockTranspose> &tables) {
    // Named after the block, which tells the stages of a Func apart: Halide finds the place of a table by name.
    Var row_block(column_block.name() + "_row_block"), in_row("in_row");
    consumer.split(row, row_block, in_row, tables[0].side)
        .reorder({in_row, column, column_block, row_block})
        .vectorize(in_row)
        .unroll(column);
    for (const BlockTranspose &table : tables) schedule_transpose(table, LoopLevel(of, column_block));
}

}  // namespace attune
