// SPDX-License-Identifier: MIT
// The terms of attention's predicted time (dispatch/cost.h), for one batch entry.
#pragma once
#include "attune/detail/cost.h"
#include "attune/sdpa.h"
#include "dispatch/cost.h"

namespace attune {

// The number of queries of all query heads that share a key head.
inline std::int64_t rows_of_key_head(const SdpaProblem &p) { return p.key_heads ? p.query_heads / p.key_heads * p.queries : 0; }

// A tile is some queries of one head, as in `prefill`.
inline bool is_prefill(const VariantRecord &v) {
    return v.schedule_id == Schedule::prefill || v.schedule_id == Schedule::bf16_dot || v.schedule_id == Schedule::amx;
}

// Whether a variant of tiles of one head computes the queries of all heads that share a key head as queries of one head
// (folded_groups.h): where their tiles are a quarter fewer then, which pays for copies of the queries and results. A row of a
// tile has the bits that it has beside any other rows. Not where scores may differ from head to head, nor for a window whose
// left bound hides keys: lengths of rows express right bounds alone.
bool folds_groups(const SdpaProblem &, const VariantRecord &);
// The problem with folded groups: (B, Hkv, Sq * group, D).
inline SdpaProblem with_folded_groups(SdpaProblem p) {
    p.queries = rows_of_key_head(p), p.query_heads = p.key_heads;
    return p;
}

// Multiply-adds of a call, plus as many as it could make while it reads keys and values.
inline double work_of(const SdpaProblem &p) {
    const double reads = static_cast<double>(p.batch) * static_cast<double>(p.key_heads) * static_cast<double>(p.keys) *
                         static_cast<double>(p.head_dim + p.value_dim);
    return reads * std::max(static_cast<double>(rows_of_key_head(p)), multiply_adds_of_a_read);
}

// Terms of prefill, bf16_dot and amx, whose task is a tile of queries of one head, or of one group where groups are folded; a
// sum over heads and tiles of each:
//   0 the call   1 tiles   2 tiles that see keys * width   3 scores, padding included   4 scores * width   5 KV blocks * width
//   6 bytes of a head's keys and values beyond a core's own cache, as often as a tile reads them
// and of decode and split, whose task is a KV block of a key head:
//   0 the call   1 KV blocks of each tile of rows   2 rows * width   3 scores, padding included   4 scores * width
//   5 bytes of keys and values beyond a core's own cache, each as often as a tile of rows reads it   6 beyond a shared cache
// `width` is head_dim + value_dim in whole vectors. In AMX kernels term 1 is keys * width that are laid out for tiles.
// Of kernels for a device, of the whole batch; a sum over the blocks of the grid of each, but for 1:
//   0 the call   1 KV blocks * width of the block that has most   2 blocks * width   3 KV blocks   4 KV blocks * width
//   5 bytes of keys and values   6 channels of the parts that splits of the keys leave to be merged
// `width` is then twice the channels that the kernel computes for.
CostTerms attention_terms(const SdpaProblem &, const Runnable &);

// How two threads share a call.
Sharing attention_sharing(const SdpaProblem &, const Runnable &);

// One batch entry with so many key heads. A key head and its group have the bits that they have among others, so a choice never
// depends on the number of key heads. Sizes of 0 count as 1.
inline SdpaProblem entry_with_key_heads(SdpaProblem p, std::int64_t key_heads) {
    p.query_heads = key_heads * (p.key_heads > 0 ? std::max(p.query_heads / p.key_heads, std::int64_t(1)) : 1);
    p.batch = 1, p.key_heads = key_heads, p.queries = std::max(p.queries, std::int64_t(1)),
    p.keys = std::max(p.keys, std::int64_t(1));
    return p;
}

// The predicted time of one batch entry with as many key heads as many models have.
inline double predicted_ns(const SdpaProblem &problem, const Runnable &v) {
    constexpr std::int64_t usual_key_heads = 4;
    const SdpaProblem p = entry_with_key_heads(problem, usual_key_heads);
    return attention_sharing(p, v).time_ns(predicted_ns(v, attention_terms(p, v)));
}

// The same on a device, with the key heads of a small batch, which leave few of its multiprocessors idle. The band does not
// count: tensors on the device may hold it.
inline double predicted_device_ns(const SdpaProblem &problem, const Runnable &v) {
    SdpaProblem p = entry_with_key_heads(problem, detail::key_heads_of_device);
    p.causal = false, p.window_keys = 0;
    return predicted_ns(v, attention_terms(p, v));
}

}  // namespace attune
