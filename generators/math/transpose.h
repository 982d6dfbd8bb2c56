// Square blocks transposed by shuffles of neighbours, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <string>
#include <vector>

namespace attune {

// A block of side n = 2^m has n^2 elements in a row; m perfect shuffles (first half and second half interleaved) exchange
// its rows and columns. Each pass interleaves whole vectors, where a transposed load or store would take them apart.
// A pass is a Func of (half, at, row block, column block, outer...): element half + 2 at of the block.
struct BlockTranspose {
    int side;
    Halide::Func rows;  // (column, row, row block, column block, outer...): what goes into the first pass
    std::vector<Halide::Func> passes;
    Halide::Var half{"half"}, at{"at"}, column{"column"}, row{"row"}, row_block{"row_block"}, column_block{"column_block"};

    // source(row, column) gives what is to be transposed; it may use `outer`, which the passes have as dimensions.
    BlockTranspose(const std::string &name, int side, const std::vector<Halide::Var> &outer,
                   const std::function<Halide::Expr(Halide::Expr row, Halide::Expr column)> &source);

    // source(row, column), where neighbouring rows are neighbours in memory.
    Halide::Expr operator()(Halide::Expr row, Halide::Expr column, const std::vector<Halide::Expr> &outer) const;
};

}  // namespace attune
