// SPDX-License-Identifier: MIT
// Attention over caches in pages of a pool (PagedAttention, Kwon et al., 2023): prompts, chunks of prompts, steps and trees of
// guesses, all in one call.
#pragma once
#include "attune/pool.h"
#include "attune/sdpa.h"

namespace attune {

// Rows that several sequences begin with, held once: row j of prefix g lies in page block_table[g, j / page].
struct SharedPrefix {
    ConstView block_table = {};  // i32 (G, N)
    ConstView lens = {};         // i32 (G): rows held, a multiple of 16
    ConstView of = {};           // i32 (B): the prefix of each sequence, -1: none
};

// Options, in the order in which they act: x, softcap, + bias of a distance, + ALiBi, masks, sink, softmax, times value. A
// query stands at the position of its own row: the last query of a sequence at that of its last row.
struct PagedOptions {
    std::optional<double> scale = {};  // default 1 / sqrt(Dk); scale, softcap and alibi_slopes as in SdpaOptions
    double softcap = 0;
    // Type of query, (Hq, R): entry r is added to scores of keys r rows before the query (0: of rows after it, too), the last
    // entry to those of all keys further away (T5's relative bias, with its buckets laid out).
    ConstView distance_bias = {};
    bool alibi = false;
    ConstView alibi_slopes = {};
    bool causal = true;
    Window window = {};
    // bool (B, S, S), S at least the most queries of a sequence: query i sees new row j only where entry (i, j) is true (tree
    // of guesses of speculative decoding); rows before the new ones are seen by all. True on the diagonal, false behind it. It
    // takes the place of causal; ALiBi and distance_bias are refused beside it.
    ConstView tree_mask = {};
    // i32 (B, S): positions of the new rows, which a window counts from beside tree_mask. Not given: the rows before them and
    // the depth in the tree.
    ConstView positions = {};
    ConstView sinks = {};      // f32 (Hq)
    SharedPrefix prefix = {};  // rows before those of block_table; lens does not count them
    ConstView indptr = {};     // i32 (B + 1), where block_table is one list (N): pages [indptr[b], indptr[b + 1]) of sequence b
    View lse = {};             // output, (Hq, Tq): f64 for f64, else f32
    // Output, f64 for f64, else f32: (B, Hq, Sk) or (B, Hkv, Sk), last stride 1. Entry j of a row is the sum of the weights of
    // key j over the sequence's queries (and, of Hkv, over the query heads that share the key head); keys of its prefix come
    // first. Such sums are the scores of cache eviction (H2O, Zhang et al., 2023; SnapKV, Li et al., 2024). Sk is at least the
    // largest number of rows of a sequence, its prefix included; entries behind a sequence's rows are 0. Weights are computed a
    // second time, in f32 from rows of 16 bits, and added query by query, for each query head by head.
    View weight_sums = {};
    bool invariant = false;  // as SdpaOptions::invariant: the same bits for a prompt at once, in chunks and row by row
    std::string_view variant = {};
};

// out = softmax(x) value over the rows that each sequence holds.
//
//   query (Tq, Hq, Dk), out (Tq, Hq, Dv): queries [cu_seqlens_q[b], cu_seqlens_q[b + 1]) are those of sequence b
//   key_pages, value_pages: pool.h, with as many pages of as many rows, numbers or quantised; rows, scales and minima of both
//     are laid out alike, page beside page
//   cu_seqlens_q i32 (B + 1), from 0, never falling, at most Tq     block_table i32 (B, N)     lens i32 (B)
//
// lens[b] counts the rows that sequence b holds, those of its queries among them, which must have been appended (paged_append).
// Row j lies in page block_table[b, j / page], slot j % page; entries beyond the length are not read, and may be anything.
// Sequences may have any number of queries, 0 included, in any mixture; a large one is shared by all threads, others run side
// by side. Work and choice of the variant follow the rows held. A sequence's result has the bits of the same call for it alone,
// and those of scaled_dot_product_attention over the same rows in order.
//
// Pages of one row (pool.h) make block_table a list of single keys: a sequence attends to the rows that its list names, in
// the order of the list, and its last query stands at the last of them; a row named twice counts twice. Where each query is
// a sequence of its own, these are the keys that an indexer chose for it (DeepSeek Sparse Attention, DeepSeek-AI, 2025;
// Quest, Tang et al., 2024). Positions, which window, ALiBi and distance_bias count, are those in the list. Listed rows are
// copied to scratch first.
//
// Quantised rows are taken as numbers: of f32 where a kernel reads them in place (few queries; i8 with i8 or u8 with u8), else
// of the type of query, which they are rounded to. The result is that over rows of these numbers, but for rounding: few queries
// of bf16 over i8 are rounded to 16 bits of their largest magnitude, as weights are (docs/numerics.md).
//
// Tensors may be on a device (docs/cuda.md: options and types), block_table and lens too; cu_seqlens_q is on the host. There a
// table and lengths are not checked, and the work follows the width of the table.
//
// Types: query and out of one of f32, f64, bf16, f16, and pages of that type; or, but for f64, i8 or u8, keys and values each.
ATTUNE_API Status paged_attention(Context &, const ConstView &query, const ConstPages &key_pages, const ConstPages &value_pages,
                                  const ConstView &cu_seqlens_q, const ConstView &block_table, const ConstView &lens,
                                  const View &out, const PagedOptions & = {}) noexcept;

}  // namespace attune
