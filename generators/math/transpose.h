// SPDX-License-Identifier: MIT
// Square blocks transposed by shuffles of neighbours, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace attune {

// Transposition of blocks of side n = 2^m in m passes, each of which makes two vectors of two neighbours. Vectors consist of
// groups of 16 bytes (2^b elements), within which processors exchange elements at less cost than between groups. Each of the
// first b passes interleaves the lower halves of two groups, and the upper ones; each later pass takes the even groups of two
// vectors, and the odd ones. So whole vectors go in and come out, where a transposed load or store would split them. A pass is
// a Func of (bits of the place in a vector, vector, row block, column block, outer...): in bits a pass is only another order,
// which Halide compiles to a shuffle, where divisions would become a gather. The last stage has places instead of bits and
// vector. Elements that stay together, such as a whole group, count as one wide element (`unit`).
struct BlockTranspose {
    static constexpr const char *row_halves = "_row_halves";  // suffix in the name of rows that are read by halves

    int side;           // elements of a vector
    int vectors;        // the side, or a fraction of the side where elements stay together
    int read_together;  // elements of a row side by side in a vector: the side, or half the side
    Halide::Func rows;  // (column, vector, row block, column block, outer...): input of the first pass
    std::vector<Halide::Func> passes;
    std::vector<Halide::Var> bits;
    Halide::Func block;       // (element + side * vector, row block, column block, outer...)
    Halide::RDom block_bits;  // loop of block's update: the bits and the vector
    Halide::Var column{"column"}, vector{"vector"}, place{"place"}, row_block{"row_block"}, column_block{"column_block"};

    // source(row, column) is the element to be transposed; it may use `outer`, which the passes have as dimensions. by_halves:
    // where a vector has several groups, read its halves from two rows, which takes twice the loads and saves a pass between
    // groups. unit: number of elements that stay together.
    BlockTranspose(const std::string &name, int side, const std::vector<Halide::Var> &outer,
                   const std::function<Halide::Expr(Halide::Expr row, Halide::Expr column)> &source, bool by_halves = false,
                   int unit = 1);

    // source(row, column), where neighbouring rows are neighbours in memory.
    Halide::Expr operator()(Halide::Expr row, Halide::Expr column, const std::vector<Halide::Expr> &outer) const;

private:
    int group_bits;  // log2 of the units in a group
    Halide::Expr vector_of(const Halide::Expr &row_or_column) const;
};

// Side of blocks whose rows fill a cache line, halved until it divides all extents.
int block_side(Halide::Type, std::initializer_list<int> extents = {});

}  // namespace attune
