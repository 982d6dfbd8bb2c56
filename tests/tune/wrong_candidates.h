// SPDX-License-Identifier: MIT
// Defects of the candidates in wrong_candidates.cpp, and words of the reason for which the gate refuses each; "" where the
// process dies.
#pragma once

#define ATTUNE_WRONG_CANDIDATES(WITH) \
    WITH(right, "right") \
    WITH(dropped_rescale, "out: maximum error") \
    WITH(swapped_state, "maximum error") \
    WITH(last_kv_block_skipped, "out: maximum error") \
    WITH(tail_rows, "out: not all elements written") \
    WITH(tail_channels, "out: not all elements written") \
    WITH(causal_edge, "causal top_left") \
    WITH(window_edge, "window") \
    WITH(lengths_in_last_kv_block, "valid_lens") \
    WITH(empty_row_is_nan, "the reference 0") \
    WITH(empty_row_is_garbage, "out: not all elements written") \
    WITH(group_mapping, "Hq 4 Hkv 2") \
    WITH(value_strides, "layouts") \
    WITH(lse_base_2, "lse: maximum error") \
    WITH(lse_unwritten, "lse: not all elements written") \
    WITH(scale_twice, "lse: maximum error") \
    WITH(coarse_weights, "out: maximum error") \
    WITH(race, "out: ") \
    WITH(uninitialised_scratch, "the reference") \
    WITH(writes_before, "") \
    WITH(writes_after, "") \
    WITH(padding_written, "out: written beyond its elements") \
    WITH(scratch_overrun, "") \
    WITH(reads_beyond, "") \
    WITH(input_written, "an input was written: query") \
    WITH(earlier_call, "gives other bits: out") \
    WITH(thread_count, "gives other bits: out") \
    WITH(masked_values_leak, "out: element 0 is nan") \
    WITH(crash, "") \
    WITH(hang, "")

namespace attune_tune_tests {
#define ATTUNE_NAME(name, words) name,
enum Defect { ATTUNE_WRONG_CANDIDATES(ATTUNE_NAME) };
#undef ATTUNE_NAME
}  // namespace attune_tune_tests
