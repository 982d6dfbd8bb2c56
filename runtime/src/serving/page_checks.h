// SPDX-License-Identifier: MIT
// Checks of the pages of a pool (attune/pool.h).
#pragma once
#include "attune/pool.h"
#include "serving/store_rows.h"
#include <string>

namespace attune {

// Checks the rows of a page of pages (P, page, Hkv, D): a multiple of the keys of a run.
Status check_page_size(std::string_view name, const ConstView &rows);

struct PagesToWrite {
    QuantisedOut out;  // of all pages; without scales and minimum where they are not quantised
    bool quantised = false;

    std::int64_t pages() const { return out.rows.extent[0]; }
    std::int64_t page() const { return out.rows.extent[2]; }
};

// Checks pages for rows `x`, (1, H, T, D), of the argument `rows_name`. On a device scales of the caller's own are not read.
Status check_pages_to_write(const std::string &name, const Pages &, std::string_view rows_name, const ConstView &x,
                            bool on_device, PagesToWrite &);

}  // namespace attune
