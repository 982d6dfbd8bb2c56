// SPDX-License-Identifier: MIT
// Appending to a cache of keys and values (KV cache) that the caller owns.
#pragma once
#include "attune/context.h"
#include "attune/rows.h"
#include "attune/tensor.h"

namespace attune {

enum class CacheWhenFull {
    refuse,  // an error: cache_lens[b] + S must be at most C
    slide,   // the oldest rows make room: afterwards the newest C rows stand in [0, C), in order
};

struct KvAppendOptions {
    CacheWhenFull when_full = CacheWhenFull::refuse;
    ConstView new_lens = {};     // int32 (B) in [0, S]: only the first new_lens[b] rows are appended; not given: all
    RowSteps key_steps = {};     // of keys, before they are stored; the same pass stores them
    bool rotate_values = false;  // Hadamard rotation of values: attention's out is then to be turned back (transform_rows)
    // i32 (B, S), of the new rows, for RoPE; not given: cache_lens[b], cache_lens[b] + 1, ... Needed where a cache slides: its
    // length says no positions.
    ConstView positions = {};
};

// Copies the rows of key and value behind the cache_lens[b] rows that the caches hold, in place. Nothing else is written,
// cache_lens included: the caller adds S (or new_lens[b]) to cache_lens, up to C, before the next append. Attention of S
// queries over the result has SdpaOptions::cache_lens = min(cache_lens + S, C) - S.
//
//   key (B, Hkv, S, Dk)   value (B, Hkv, S, Dv)   key_cache (B, Hkv, C, Dk)   value_cache (B, Hkv, C, Dv)
//   cache_lens int32 (B) in [0, C]
//
// On a device cache_lens, new_lens and positions are there, and are not checked: rows for which a cache has no room are not
// stored, and caches do not slide (docs/cuda.md).
//
// All of one type, f32, f64, bf16 or f16; any strides with a dense last dimension. Inputs must not overlap the caches, nor the
// caches each other. Caches that are quantised, or pages of several sequences: paged_append (attune/append.h).
ATTUNE_API Status kv_append(Context &, const ConstView &key, const ConstView &value, const ConstView &cache_lens,
                            const View &key_cache, const View &value_cache, const KvAppendOptions & = {}) noexcept;

}  // namespace attune
