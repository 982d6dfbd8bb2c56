// SPDX-License-Identifier: MIT
// Inert parameters of a space, which change no code.
#pragma once
#include "space.h"
#include <map>
#include <string>
#include <vector>

namespace attune::tune {

// Names of inert parameters: some candidates differ in such a parameter alone, and none of those differ in code. `codes`:
// hashes of the candidates' machine code.
std::vector<std::string> inert_parameters(const Space &, const std::map<Parameters, std::string> &codes);

}  // namespace attune::tune
