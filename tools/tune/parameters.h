// SPDX-License-Identifier: MIT
// Parameters of a schedule: those of a candidate of the tuner, and of a record of schedules/<op>/tuned/*.json.
#pragma once
#include <map>
#include <string>

namespace attune::tune {

using Parameters = std::map<std::string, int>;  // by name: kv_block, tile_q...

// Parses "kv_block=64 tile_q=64", as variants() gives parameters; throws InputError for other text.
Parameters parse_parameters(const std::string &text);
std::string text_of(const Parameters &);

}  // namespace attune::tune
