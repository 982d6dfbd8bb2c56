// SPDX-License-Identifier: MIT
// Appending rows of keys and values to pages of a pool, with everything that happens to a row before it is stored.
#pragma once
#include "attune/context.h"
#include "attune/pool.h"
#include "attune/rows.h"

namespace attune {

struct AppendOptions {
    RowSteps key_steps = {};     // of keys, before they are stored
    ConstView positions = {};    // i32 (T), of the new rows; needed with RoPE
    bool rotate_values = false;  // Hadamard rotation of values: attention's out is then to be turned back (transform_rows)
};

// Stores row t of key and value in page slots[t] / page, row slots[t] % page; -1 skips the row. In one pass over the rows:
// norm, RoPE, rotation, then the cast or the quantisation that the pages ask for (pool.h). Rows without any of these are
// copied.
//
//   key (T, Hkv, Dk)   value (T, Hkv, Dv)   slots i64 (T)   key_pages, value_pages: pool.h
//
// key and value are f32, bf16 or f16 (f64 into pages of f64), with any strides whose last is 1; pages that are not quantised
// are of the same type. Nothing but these rows, their scales and minima is written. i8: scale = max |x| / 127, rounded to
// f16 where it is f16, and q = round(x / scale), ties to even; a scale of 0, that of a row of zeros, has q = 0. Where the
// caller gave the scale (one, or one a channel), q is clamped to [-127, 127]. u8: minimum and scale = (max - min) / 15 are
// rounded to f16 before q = round((x - minimum) / scale) in [0, 15]. Numbers beyond the range of f16 are stored as its ends,
// +-65504.
//
// A slot that is named twice, or outside the pool, is an error. So are NaN and Inf in a row that is quantised and not
// skipped, and numbers so large that their rotation may leave the range of f32 (invalid_argument; then nothing has been
// written). Tables of RoPE are taken to be finite. Rows are the same, bit for bit, for any number of threads and whatever is
// appended beside them.
//
// On a device slots and positions are there, and are not checked: a row whose slot is outside the pool is not stored; NaN and
// Inf in a row that is quantised are no error, and the numbers stored for it mean nothing (docs/cuda.md).
//
// A contiguous cache that is quantised is a pool of one page for each sequence, of as many rows as it has capacity, a
// multiple of 16: slot b * C + cache_lens[b] + i.
ATTUNE_API Status paged_append(Context &, const ConstView &key, const ConstView &value, const ConstView &slots,
                               const Pages &key_pages, const Pages &value_pages, const AppendOptions & = {}) noexcept;

}  // namespace attune
