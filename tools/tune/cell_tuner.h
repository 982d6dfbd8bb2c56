// SPDX-License-Identifier: MIT
// The search for the parameters of one variant: candidates are compiled side by side, then checked and timed one by one, alone.
#pragma once
#include "setting.h"

namespace attune::tune {

// Searches until the deadline less the time of the decision, then decides.
CellResult tune_cell(const Setting &, const Parameters &baseline, Deadline);

}  // namespace attune::tune
