// SPDX-License-Identifier: MIT
// Parameters of a space that change no code.
#pragma once
#include "space.h"
#include <map>
#include <string>
#include <vector>

namespace attune::tune {

// A parameter is inert if no two candidates that differ in it alone have different code, and some do so differ. `codes`: hashes
// of the candidates' machine code.
std::vector<std::string> inert_parameters(const Space &, const std::map<Parameters, std::string> &codes);

}  // namespace attune::tune
