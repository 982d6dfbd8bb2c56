// SPDX-License-Identifier: MIT
// Knobs of a space that turn nothing.
#pragma once
#include "space.h"
#include <map>
#include <string>
#include <vector>

namespace attune::tune {

// A knob is inert if no two candidates that differ in it alone have different code, and some do so differ. `codes`: hashes of
// the candidates' machine code.
std::vector<std::string> inert_knobs(const Space &, const std::map<Numbers, std::string> &codes);

}  // namespace attune::tune
