// SPDX-License-Identifier: MIT
// Linear layers of one row or a few. Weights are not packed, because no other row reads them, but used as they are loaded.
#pragma once
#include "generators/linear/linear_stages.h"

namespace attune {

// Loops of a sum over terms that lie in blocks along k.
struct BlockSum {
    Halide::RVar term, block;
};

// The bits of PanelStages, with weights read from memory block by block and transposed where they are summed. The depth must be
// at least a block.
struct RowStages : LinearSums {
    BlockTranspose transpose;
    Halide::Func x_rows;  // (k, m, h, b): x widened, where it needs widening
    // The updates of partial: the terms of a depth block before its whole blocks, the whole blocks, and the rest.
    std::vector<BlockSum> block_sums;
    static constexpr int whole_blocks = 1;  // the update of the whole blocks
};
RowStages linear_row_stages(const LinearInputs &, const LinearShape &);

// RowStages with whole depth blocks in groups of interleaved_blocks, summed by the first update of product; depth blocks behind
// the last group are summed as in RowStages.
struct InterleavedRowStages : RowStages {
    struct Group {
        int depth_blocks;
        BlockTranspose transpose;
        Halide::Func x;        // (u, k, m, c, h, b): the rows of x of group c: term k of its depth block u
        Halide::Func partial;  // (u, n, m, c, h, b): sum of depth block u of group c
        std::vector<BlockSum> block_sums;
        Halide::RVar product_depth_block, product_group;
    } group;
};
InterleavedRowStages linear_interleaved_row_stages(const LinearInputs &, const LinearShape &);

// The pairs of one group, one per accumulator.
struct PairGroup {
    Halide::Func words;  // (u, n, t, h, b): pairs from t on
    Halide::Func panel;  // (e, u, n, t, h, b): their elements
};

// bf16 widened to f32, in the summation order of Bf16DotRowStages. partial is (u, n, m, c, h, b). The depth must have at least
// a pair for each accumulator.
struct WidenedRowStages : PairSums {
    Halide::Func x_rows;             // (pair, e, m, h, b): x widened
    Halide::Func group, rest_group;  // (u, n, t, h, b): pairs from t on; the last, short group
};
WidenedRowStages linear_widened_row_stages(const LinearInputs &, const LinearShape &);

// The bits of Bf16DotPanelStages: neighbouring pairs of a column are read as they lie and summed side by side. partial is (u,
// n, m, c, h, b). The depth must have at least a pair for each accumulator.
struct Bf16DotRowStages : PairSums {
    PairGroup group, rest;
};
Bf16DotRowStages linear_bf16_dot_row_stages(const LinearInputs &, const LinearShape &);

// Bf16DotRowStages with several accumulators, by lines of a weight, a line being as many pairs as a block. Whole depth blocks
// are summed by the first updates of product, in interleaved groups of `depth_blocks`, and then the others. In the
// remaining depth, update 0 of partial has the whole lines, and update 1 the other groups, before the rest.
struct Bf16DotLineStages : Bf16DotRowStages {
    struct Lines {
        BlockTranspose transpose;
        Halide::Func panel;  // (e, u, n, k, t, h, b): group k of the line from pair t on
        Halide::RVar pair, group, line;
    };
    Lines lines;
    struct WholeDepthBlocks {
        int depth_blocks;
        Halide::Func partial;  // (u, n, m, a, c, h, b): sum of depth block a of group c
        Lines lines;
        Halide::RVar product_accumulator, product_depth_block, product_group;
    };
    std::vector<WholeDepthBlocks> whole_depth_blocks;
};
Bf16DotLineStages linear_bf16_dot_line_stages(const LinearInputs &, const LinearShape &);

}  // namespace attune
