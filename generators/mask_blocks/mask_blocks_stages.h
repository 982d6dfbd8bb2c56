// SPDX-License-Identifier: MIT
// What is computed: of each block of queries by a block of keys, which keys a mask lets some query see (block_mask.h). Where
// the interval of the mask over the block tells, that is all; else every pair is asked.
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

struct MaskBlocksInputs {
    MaskFunction mask;
    Halide::Func offset;                                  // (b), int32
    Halide::Expr query_heads, key_heads, queries, keys;   // int32, as the sides of a block:
    Halide::Expr block_heads, block_queries, block_keys;  // a block holds the queries of so many query heads
};

struct MaskBlocksStages {
    Halide::Func column;          // (k, c, t, h, b): Tuple of whether some query, and every one, sees key k of block column c
    Halide::Func span;            // (c, t, h, b): Tuple of begin, end, whole
    Halide::RVar head, query;     // of column
    Halide::RVar key, key_group;  // of span: keys are asked in groups
    Halide::Func out;             // (c, t, h, b), int32
    Halide::Var k{"k"}, c{"c"}, t{"t"}, h{"h"}, b{"b"};
};

// `group`: keys that are asked together.
MaskBlocksStages mask_blocks_stages(const MaskBlocksInputs &, int group);

// Whether a mask depends on the query head, and on the batch entry but through the offset.
struct MaskDependence {
    bool on_head, on_batch;
};
MaskDependence dependence_of(const MaskFunction &);

}  // namespace attune
