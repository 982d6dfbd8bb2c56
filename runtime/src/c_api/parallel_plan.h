// SPDX-License-Identifier: MIT
// The plan of context parallelism behind C's pointer.
#pragma once
#include "attune/context_parallel.h"
#include "c_api/reader.h"
#include <vector>

struct attune_parallel_plan {
    attune::ParallelPlan plan;
    std::vector<std::vector<attune_position_range>> ranges;  // those of `plan`, as C has them
};

namespace attune::c_api {

inline const ParallelPlan &read(Reader &reader, const attune_parallel_plan *plan, const Name &name) {
    static const ParallelPlan none;
    return reader.must_be_given(plan, name) ? plan->plan : none;
}

}  // namespace attune::c_api
