// SPDX-License-Identifier: MIT
// A checked call over pages.
#pragma once
#include "attune/paged.h"
#include "execution/scratch.h"
#include "serving/packed_call.h"
#include <optional>

namespace attune {

// Pages of one pool as rows: row j of page n is row n * of_page + j.
struct PagedRows {
    ConstView rows;  // (1, Hkv, rows, D), or half of D bytes for four bits a channel
    std::int64_t pages = 0, page = 0, of_page = 0, channels = 0;
    RowScales scales = {};
};

// The band of keys that kernels apply. A tree's mask takes the place of both.
inline Causal causal_of(const PagedOptions &o) {
    return o.causal && !o.tree_mask.given() ? Causal::bottom_right : Causal::none;
}
inline Window window_of(const PagedOptions &o) { return o.tree_mask.given() ? Window() : o.window; }

struct PagedCall : PackedCall {
    ConstView query_ends, lens, block_table;
    PagedRows keys, values;
    // SdpaCall::row_shift of all sequences; or, where pages are single rows, Sequence::row_list of all and shifts of rows in
    // order.
    std::optional<ScratchBlock> places;

    std::int64_t batch() const { return query_ends.extent[0] - 1; }
};

// Checks the pools, and gives them as rows. On a device scales are not read.
Status check_pools(const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out, bool on_device,
                   PagedCall &);
// Checks all but what lens and tables hold, and the tables' shapes; and shapes: of lens, and of a table.
Status check_paged_arrays(Context::State &, const ConstView &query, const ConstPages &keys, const ConstPages &values,
                          const View &out, const PagedOptions &, bool on_device, PagedCall &);
Status check_lens(const PagedCall &);
Status check_table(std::string_view name, const ConstView &table, std::int64_t rows);
// Checks everything, lists the sequences, and writes their shifts.
Status check_paged(Context::State &, const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out,
                   const PagedOptions &, PagedCall &);

// The call with all tensors but cu_seqlens_q on a device.
Status paged_on_device(Context &, const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out,
                       const PagedOptions &, PagedCall &);

}  // namespace attune
