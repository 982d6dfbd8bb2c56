// SPDX-License-Identifier: MIT
// Block mask: for each block of queries by a block of keys, the keys that a mask lets some query see (block_mask.h), as in
// FlexAttention (Dong et al. 2024). Where the mask's interval over the block decides, no pair is evaluated; else every pair is.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

struct MaskBlocksInputs {
    MaskFunction mask;
    Halide::Func offset;                                  // (b), int32
    Halide::Expr query_heads, key_heads, queries, keys;   // int32, as are the sides of a block:
    Halide::Expr block_heads, block_queries, block_keys;  // a block holds the queries of block_heads query heads
};

struct MaskBlocksStages {
    Halide::Func column;          // (k, c, t, h, b): Tuple: some query, and every query, sees key k of block column c
    Halide::Func span;            // (c, t, h, b): Tuple {begin, end, whole}
    Halide::RVar head, query;     // of column
    Halide::RVar key, key_group;  // of span: keys are tested in groups
    Halide::Func out;             // (c, t, h, b), int32
    Halide::Var k{"k"}, c{"c"}, t{"t"}, h{"h"}, b{"b"};
};

// `group`: number of keys that are tested together.
MaskBlocksStages mask_blocks_stages(const MaskBlocksInputs &, int group);

// Whether a mask depends on the query head, and on the batch entry other than through the offset.
struct MaskDependence {
    bool on_head, on_batch;
};
MaskDependence dependence_of(const MaskFunction &);

}  // namespace attune
