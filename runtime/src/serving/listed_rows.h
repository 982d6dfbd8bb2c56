// SPDX-License-Identifier: MIT
// Rows of a pool that are listed one by one (pages of single rows), one after another in scratch.
#pragma once
#include "attention/sdpa_call.h"
#include "execution/scratch.h"
#include <optional>

namespace attune {

// Copies the listed rows of keys and values of a pool, with their scales and minima, and makes the call of one entry read them
// there. list: i32 (keys). Kernels then read a contiguous cache: a row that is listed alone has no neighbour to be read with.
Status take_listed_rows(Context::State &, const SdpaCall &pool, const ConstView &list, SdpaCall &,
                        std::optional<ScratchBlock> &memory);

}  // namespace attune
