// SPDX-License-Identifier: MIT
// Rows of pages, one after another and as numbers, for kernels that read such rows.
#pragma once
#include "attention/sdpa_call.h"
#include <functional>

namespace attune {

// Threads that are worth waking to copy so many bytes.
int threads_for_copy(const Context::State &, std::int64_t bytes);

// Calls run(part) for key heads of a call of one entry over pages, as many at a time as 64 MiB hold of their keys and values,
// which `part` has in order. Copies take a share of the time of the kernels that is the less, the more queries there are.
Status run_gathered(Context::State &, const SdpaCall &, const std::function<Status(const SdpaCall &part)> &run);

// Writes the keys of a call of one entry over pages to `memory`, of all key heads, in order and as numbers of the call's type,
// and makes the call read them there.
Status gather_keys(Context::State &, char *memory, SdpaCall &);

}  // namespace attune
