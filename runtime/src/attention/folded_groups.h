// SPDX-License-Identifier: MIT
// Grouped-query attention by kernels whose tiles hold queries of one head.
#pragma once
#include "attention/sdpa_call.h"
#include <functional>

namespace attune {

// Whether the call runs with folded groups: where folds_groups() says so, unless the left bound of a window hides keys of some
// query. Lengths of rows express right bounds alone.
bool runs_folded(const SdpaCall &, const VariantRecord &);

// Calls run(folded) with the groups folded into the queries, for as many batch entries at a time as fit a core's cache. Row
// i * group + g of a key head is query i of head g of its group, so that under a causal mask the rows of a tile see nearly the
// same keys.
Status run_folded(Context::State &, const SdpaCall &, const std::function<Status(const SdpaCall &folded)> &run);

// Upper bound of the scratch of run_folded() itself.
std::size_t bytes_of_folded_groups(const SdpaProblem &);

}  // namespace attune
