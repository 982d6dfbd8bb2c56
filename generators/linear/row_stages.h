// SPDX-License-Identifier: MIT
// Linear layers of one row or a few: weights are not packed, since no other row wants them, but read as they come from memory.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Loops of a sum over terms that lie in blocks along k.
struct BlockSum {
    Halide::RVar term, block;
};

// The bits of PanelStages, for sums that go from memory block by block, transposed where they are summed. The depth must be a
// block at least.
struct RowStages : LinearSums {
    BlockTranspose transpose;
    Halide::Func x_rows;  // (k, m, h, b) x widened, where it is to be
    // The updates of partial: those terms of a depth block that are part of a block before its whole ones, the whole ones, and
    // the rest.
    std::vector<BlockSum> block_sums;
    static constexpr int whole_blocks = 1;  // the update of these
};
RowStages linear_row_stages(const LinearInputs &, const LinearShape &);

// The same with whole depth blocks in groups of interleaved_blocks, summed by the first update of product; those behind the
// last group are summed as in RowStages.
struct InterleavedRowStages : RowStages {
    struct Group {
        int depth_blocks;
        BlockTranspose transpose;
        Halide::Func x;        // (u, k, m, c, h, b) the rows of x of group c: term k of its depth block u
        Halide::Func partial;  // (u, n, m, c, h, b) sum of depth block u of group c
        std::vector<BlockSum> block_sums;
        Halide::RVar product_depth_block, product_group;
    } group;
};
InterleavedRowStages linear_interleaved_row_stages(const LinearInputs &, const LinearShape &);

// The pairs of one group, one for each accumulator.
struct PairGroup {
    Halide::Func words;  // (u, n, t, h, b) pairs from t on
    Halide::Func panel;  // (e, u, n, t, h, b) their elements
};

// bf16 widened to f32, in the order of summation of Bf16DotRowStages. partial is (u, n, m, c, h, b). The depth must have a pair
// for each accumulator at least.
struct WidenedRowStages : PairSums {
    Halide::Func x_rows;             // (pair, e, m, h, b) x widened
    Halide::Func group, rest_group;  // (u, n, t, h, b) pairs from t on; the last ones, too few for an accumulator each
};
WidenedRowStages linear_widened_row_stages(const LinearInputs &, const LinearShape &);

// The bits of Bf16DotPanelStages: neighbouring pairs of a column are read as they lie and summed side by side. partial is
// (u, n, m, c, h, b). The depth must have a pair for each accumulator at least.
struct Bf16DotRowStages : PairSums {
    PairGroup group, rest;
};
Bf16DotRowStages linear_bf16_dot_row_stages(const LinearInputs &, const LinearShape &);

// The same for several accumulators, by lines of a weight, each of as many pairs as a block has. Whole depth blocks are summed
// by the first updates of product, in groups of `depth_blocks` interleaved ones, and then those that fill no group. Update 0 of
// partial has the whole lines of what is left of the depth, and update 1 its other groups, before the rest.
struct Bf16DotLineStages : Bf16DotRowStages {
    struct Lines {
        BlockTranspose transpose;
        Halide::Func panel;  // (e, u, n, k, t, h, b) group k of the line from pair t on
        Halide::RVar pair, group, line;
    };
    Lines lines;
    struct WholeDepthBlocks {
        int depth_blocks;
        Halide::Func partial;  // (u, n, m, a, c, h, b) sum of depth block a of group c
        Lines lines;
        Halide::RVar product_accumulator, product_depth_block, product_group;
    };
    std::vector<WholeDepthBlocks> whole_depth_blocks;
};
Bf16DotLineStages linear_bf16_dot_line_stages(const LinearInputs &, const LinearShape &);

}  // namespace attune
