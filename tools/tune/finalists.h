// SPDX-License-Identifier: MIT
// The decision between the best of a search, in fresh processes.
#pragma once
#include "setting.h"
#include <vector>

namespace attune::tune {

// Between a baseline and others that are all right. What is open at the deadline, or after processes that failed, stays so:
// then no gain has an interval, and the result says why.
std::vector<Finalist> decide(const Setting &, const Candidate &baseline, const std::vector<Candidate> &others, Deadline,
                             CellResult &);
// Which finalist replaces the baseline: of those whose interval lies above the least gain the quickest; among those within 1 %
// of it the one of the least error. Null: none.
const Finalist *winner(const std::vector<Finalist> &);

}  // namespace attune::tune
