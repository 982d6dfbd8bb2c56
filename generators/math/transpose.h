// SPDX-License-Identifier: MIT
// Square blocks transposed by shuffles of neighbours, as Halide expressions. No target, no vector width.
#pragma once
#include "Halide.h"
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace attune {

// A block of side n = 2^m goes through m passes, each of which makes two vectors of two neighbours. Vectors consist of groups
// of 16 bytes, 2^b elements, in which processors exchange elements at less cost than between them. Each of the first b passes
// interleaves the lower halves of two groups, and the upper ones; each of the others takes the even groups of two vectors, and
// the odd ones. So whole vectors go in and come out, where a transposed load or store would take them apart.
// A pass is a Func of (bits of the place in a vector, vector, row block, column block, outer...), since in bits it is no more
// than another order: Halide sees a shuffle, where divisions would make a gather of it. The last has places instead of bits and
// vector. Elements that stay together, such as all of a group, are one that is as wide: of n vectors of n such units.
struct BlockTranspose {
    static constexpr const char *row_halves = "_row_halves";  // in the name of rows that are read by halves

    int side;           // elements of a vector
    int vectors;        // the side, or a part of it where elements stay together
    int read_together;  // elements of a row that go into a vector side by side: the side, or half of it
    Halide::Func rows;  // (column, vector, row block, column block, outer...): what goes into the first pass
    std::vector<Halide::Func> passes;
    std::vector<Halide::Var> bits;
    Halide::Func block;       // (element + side * vector, row block, column block, outer...)
    Halide::RDom block_bits;  // of its update: the bits and the vector
    Halide::Var column{"column"}, vector{"vector"}, place{"place"}, row_block{"row_block"}, column_block{"column_block"};

    // source(row, column) gives what is to be transposed; it may use `outer`, which the passes have as dimensions. by_halves:
    // where a vector has several groups, its halves are read of two rows, which takes twice the loads and saves a pass between
    // groups. unit: so many elements stay together.
    BlockTranspose(const std::string &name, int side, const std::vector<Halide::Var> &outer,
                   const std::function<Halide::Expr(Halide::Expr row, Halide::Expr column)> &source, bool by_halves = false,
                   int unit = 1);

    // source(row, column), where neighbouring rows are neighbours in memory.
    Halide::Expr operator()(Halide::Expr row, Halide::Expr column, const std::vector<Halide::Expr> &outer) const;

private:
    int group_bits;  // of the units in a group
    Halide::Expr vector_of(const Halide::Expr &row_or_column) const;
};

// The side of blocks of which a row fills a cache line, or half of it and so on until it divides all extents.
int block_side(Halide::Type, std::initializer_list<int> extents = {});

}  // namespace attune
