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

}  // namespace attune
