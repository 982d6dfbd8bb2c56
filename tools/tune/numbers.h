// SPDX-License-Identifier: MIT
// The numbers of a schedule: what a candidate of the tuner is, and what a record of schedules/<op>/tuned/*.json holds.
#pragma once
#include <map>
#include <string>

namespace attune::tune {

using Numbers = std::map<std::string, int>;  // by name: chunk, tile_q...

// "chunk=64 tile_q=64", as variants() gives them; throws InputError where it is not that.
Numbers parse_numbers(const std::string &text);
std::string text_of(const Numbers &);

}  // namespace attune::tune
