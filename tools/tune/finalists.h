// SPDX-License-Identifier: MIT
// The decision between the best candidates of a search, in fresh processes.
#pragma once
#include "setting.h"
#include <vector>

namespace attune::tune {

// Decides between a baseline and other right candidates. A decision that is open at the deadline, or after failed processes,
// stays open: then no gain has an interval, and the result says why.
std::vector<Finalist> decide(const Setting &, const Candidate &baseline, const std::vector<Candidate> &others, Deadline,
                             CellResult &);
// The finalist that replaces the baseline: the fastest of those whose interval lies above the least gain; among those within 1
// % of the fastest, the one of the least error. Null: none.
const Finalist *winner(const std::vector<Finalist> &);

}  // namespace attune::tune
