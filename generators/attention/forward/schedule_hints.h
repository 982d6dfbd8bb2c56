// SPDX-License-Identifier: MIT
// How the stages of a form are cut for a schedule. No hint changes a bit of a result: each schedule's own file fills them in
// (hints_for_prefill() of schedules/sdpa/prefill.cpp).
#pragma once

namespace attune {

struct ScheduleHints {
    // Rows that share one range of KV blocks; the blocks outside it are skipped. 0: no tiles, one holds all rows, and every
    // block is computed and masked: for schedules that place each stage on its own.
    int rows_per_tile = 0;
    bool ragged_dims = false;  // value_dim is not a multiple of what the schedule may round channels up to: clamp loads
    // How a KV block reads a table over pairs, where it lies within the keys: in blocks of this side that are transposed
    // (rows_per_tile and kv_block are multiples of it); 1: as it lies; 0: no block is treated apart.
    int pair_block = 0;
    // Keys and values of a narrower type than the accumulator's are widened once for each KV block, as stages of their own, and
    // not where they are read.
    bool widens_kv_blocks = false;
    // Those values are of channels that exist, and clamped where they are read: for schedules that widen some channels at a
    // time.
    bool widens_by_line = false;
    // The output leaves a tile in transposed blocks of this side, of which rows_per_tile is a multiple; 0: as it lies.
    int out_block = 0;
    // A tile lays its queries in transposed blocks of this side, of which rows_per_tile is a multiple; 0: as they lie.
    int query_block = 0;
    // The maxima of a KV block are taken as its scores are made, where no step follows, and its weights are summed as they
    // are made: in a loop over the same keys, for schedules that join the two.
    bool joins_passes = false;
    // Of KV blocks that are masked, blocks of keys up to whose end every row sees all are multiplied apart, without a look at
    // what is masked.
    bool whole_blocks = false;
    // The kernel asks SdpaInputs::finite_values, where values are looked at before it: then no masked value is replaced.
    bool asks_finite_values = true;
};

}  // namespace attune
