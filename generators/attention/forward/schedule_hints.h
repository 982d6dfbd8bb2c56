// SPDX-License-Identifier: MIT
// Hints of a schedule about how to cut the stages of a form. No hint changes a bit of a result: each schedule's own file fills
// them in (hints_for_prefill() of schedules/sdpa/prefill.cpp).
#pragma once

namespace attune {

struct ScheduleHints {
    // Rows that share one range of KV blocks; the blocks outside it are skipped. 0: one tile holds all rows, and every block is
    // computed and masked, for schedules that place each stage on its own.
    int rows_per_tile = 0;
    bool ragged_dims = false;  // value_dim is no multiple of the schedule's rounding of channels: clamp loads
    // Side of the transposed blocks in which a KV block within the keys reads a table over pairs (rows_per_tile and kv_block
    // are multiples of the side); 1: untransposed; 0: no KV block is treated apart.
    int pair_block = 0;
    // Keys and values of a narrower type than the accumulator's are widened once for each KV block, in stages of their own, and
    // not at each read.
    bool widens_kv_blocks = false;
    // Only existing channels are widened, and reads of the widened values are clamped: for schedules that widen some channels
    // at a time.
    bool widens_by_line = false;
    // Side of the transposed blocks in which the output leaves a tile; divides rows_per_tile. 0: untransposed.
    int out_block = 0;
    // Side of the transposed blocks in which a tile lays its queries; divides rows_per_tile. 0: untransposed.
    int query_block = 0;
    // The maxima of a KV block are taken where its scores are made, if no step follows, and its weights are summed where they
    // are made: in a loop over the same keys, for schedules that fuse the two.
    bool joins_passes = false;
    // In masked KV blocks, the leading blocks of keys that every row sees whole are multiplied in a loop of their own, without
    // a test of masks.
    bool whole_blocks = false;
    // The kernel reads SdpaInputs::finite_values, for callers that test values beforehand: then no masked value is replaced.
    bool asks_finite_values = true;
};

}  // namespace attune
